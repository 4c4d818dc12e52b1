"""The site's key: bundles are signed so that `ssh-keygen -Y verify` of any machine checks them."""

from experiments.signing.site_keys import (
    NAMESPACE,
    PRINCIPAL,
    Signer,
    find_signer,
    make_signing_key,
    write_allowed_signers,
)

__all__ = [
    "NAMESPACE",
    "PRINCIPAL",
    "Signer",
    "find_signer",
    "make_signing_key",
    "write_allowed_signers",
]
