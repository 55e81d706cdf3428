"""The certificate authorities that the system trusts, such as that of a company.

uv, boto3 and requests each ship a list of their own, and do not look there.
"""

from __future__ import annotations

import os

# Of Debian and Ubuntu; of Red Hat and Amazon Linux.
STORES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def trusted() -> str | None:
    """The file that SSL_CERT_FILE names, otherwise the system's; None if there is neither."""
    return os.environ.get("SSL_CERT_FILE") or of_system()


def of_system() -> str | None:
    """The file with the list of the system; None without one."""
    return next(filter(os.path.exists, STORES), None)
