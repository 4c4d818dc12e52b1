"""Read a line of a known_hosts file, as ssh-keyscan prints it. No I/O."""

import paramiko

from runners.transports.keys import parse_public_key


def parse_known_hosts_line(text: str, host: str, port: int) -> str:
    """Return the public key in a line for this host, as "ssh-ed25519 AAAA...".

    A line may also be a key alone, as in /etc/ssh/ssh_host_ed25519_key.pub. ValueError, which says
    what is wrong, for the line of another host and for all that is no key.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) != 1:
        raise ValueError("Paste one line, with one key.")
    words = lines[0].split()
    if words[0].startswith("@"):
        raise ValueError(f"A line that begins with {words[0][:20]} names no key of one host.")
    key_at = next((at for at, word in enumerate(words) if word.startswith("AAAA")), 0)
    if key_at not in (1, 2):
        raise ValueError("This line holds no public key.")
    key = parse_public_key(" ".join(words[key_at - 1 : key_at + 1]))
    if key_at == 2 and not _names(words[0], host, port):
        expected = host if port == 22 else f"[{host}]:{port}"
        raise ValueError(f"This line is about another host, not about {expected}.")
    return f"{key.get_name()} {key.get_base64()}"


def _names(hosts: str, host: str, port: int) -> bool:
    """Return whether the first field of a line names this host, plainly or as a hash."""
    name = host if port == 22 else f"[{host}]:{port}"
    for entry in hosts.split(","):
        if entry.startswith("|1|"):
            try:
                if paramiko.HostKeys.hash_host(name, entry) == entry:
                    return True
            except (ValueError, AssertionError, IndexError):
                continue
        elif entry.lower() in (name.lower(), f"[{host}]:{port}".lower()):
            return True
    return False
