/* udocker's PRoot, made from Debian's. udocker starts it in two places:
 *
 * - on a node (P1, P2), where Debian's own is there. udocker always gives it `-k KERNEL`, by which
 *   Debian's breaks programs: the option is left out.
 * - inside a container of runc (R2, R3), where there is no file of the node's but this one. So it is
 *   linked statically and holds Debian's program with its loader and libraries, which it starts
 *   from memory.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NODES_OWN "/usr/bin/proot"
#define HOLD(name)                                                              \
    __asm__(".section .rodata\n" #name ": .incbin \"" #name "\"\n" #name "_end: .byte 0\n"); \
    extern const char name[], name##_end[]

HOLD(program);
HOLD(loader);
HOLD(libc);
HOLD(libtalloc);

static int put_into_memory(const char *from, const char *end)
{
    int file = memfd_create("proot", 0);
    while (from < end) {
        ssize_t written = write(file, from, end - from);
        if (written <= 0)
            return -1;
        from += written;
    }
    return file;
}

int main(int count, char *words[], char *variables[])
{
    char *command[count + 6];
    char libraries[80], itself[40];
    int last = 0, is_kernel = 0, first_words = 4;

    if (access(NODES_OWN, X_OK) == 0) {
        command[last++] = NODES_OWN;
    } else {
        int program_file = put_into_memory(program, program_end);
        int loader_file = put_into_memory(loader, loader_end);
        int libc_file = put_into_memory(libc, libc_end);
        int libtalloc_file = put_into_memory(libtalloc, libtalloc_end);
        snprintf(libraries, sizeof libraries, "/proc/self/fd/%d /proc/self/fd/%d", libc_file,
                 libtalloc_file);
        snprintf(itself, sizeof itself, "/proc/self/fd/%d", program_file);
        snprintf(command[0] = (char[40]){0}, 40, "/proc/self/fd/%d", loader_file);
        command[1] = "--preload";
        command[2] = libraries;
        command[3] = itself;
        last = first_words;
    }
    /* Options end where the program's own words begin; these take a word. */
    for (int number = 1; number < count; number++) {
        if (is_kernel == 0 && strcmp(words[number], "-k") == 0) {
            number++;
            continue;
        }
        command[last++] = words[number];
        if (is_kernel == 0 && words[number][0] == '-') {
            if (strlen(words[number]) == 2 && strchr("rbwipqv", words[number][1]) &&
                number + 1 < count)
                command[last++] = words[++number];
        } else {
            is_kernel = 1;
        }
    }
    command[last] = NULL;
    execve(command[0], command, variables);
    perror(command[0]);
    return 127;
}
