/* Debian's libfakechroot knows folders that are no part of the container (FAKECHROOT_EXCLUDE_PATH).
 * udocker names the folders that it binds in a variable of its own build: FAKECHROOT_DIR_MAP, as
 * OUTSIDE!INSIDE:OUTSIDE!INSIDE. Folders that have the same path on both sides are the same thing in
 * both; others stay unseen. Debian's library needs this one, so this begins first.
 */
#include <stdlib.h>
#include <string.h>

#define EXCLUDED "FAKECHROOT_EXCLUDE_PATH"

__attribute__((constructor)) static void exclude_bound_folders(void)
{
    const char *bound = getenv("FAKECHROOT_DIR_MAP"), *excluded = getenv(EXCLUDED);
    char *pairs, *rest, *pair, *all;

    if (bound == NULL || (pairs = strdup(bound)) == NULL)
        return;
    all = calloc(1, strlen(bound) + (excluded ? strlen(excluded) : 0) + 2);
    if (all == NULL)
        return;
    strcpy(all, excluded ? excluded : "");
    for (pair = strtok_r(pairs, ":", &rest); pair; pair = strtok_r(NULL, ":", &rest)) {
        char *inside = strchr(pair, '!');
        if (inside == NULL)
            continue;
        *inside++ = '\0';
        if (strcmp(pair, inside) == 0) {
            if (*all)
                strcat(all, ":");
            strcat(all, inside);
        }
    }
    setenv(EXCLUDED, all, 1);
    /* What this process starts inherits the list, and must not add to it again. */
    unsetenv("FAKECHROOT_DIR_MAP");
    free(all);
    free(pairs);
}
