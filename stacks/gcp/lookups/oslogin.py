"""OS Login: whether the user of the command can log in to the machines that it creates."""

from __future__ import annotations

from urllib import parse

import pulumi
from pulumi_gcp import organizations

from ...config.settings import ClusterConfig
from ...next_command import set_
from ...rules.validators import ConfigError
from .rest import Google, LookupFailed

ROLE = "roles/compute.osAdminLogin"  # a login with sudo
ACT_AS = "iam.serviceAccounts.actAs"
LOGIN = "compute.instances.osAdminLogin"
ROLES = {LOGIN: ROLE, ACT_AS: "roles/iam.serviceAccountUser"}


def check(config: ClusterConfig, google: Google | None, opts: pulumi.InvokeOptions) -> None:
    """Look up the rights, the user name and the key. A failed lookup is logged. ConfigError: the
    account has no right to log in, another user name, or not this key."""
    if not config.oslogin:
        return
    try:
        email = organizations.get_client_open_id_user_info(opts=opts).email
        if google is None:
            raise LookupFailed("there is no token")
        missing = _missing(config, google)
        profile = google.get("oslogin", f"v1/users/{parse.quote(email)}/loginProfile")
    except Exception as why:  # LookupFailed, or the type that a failed invoke raises
        pulumi.log.warn(
            f"OS Login cannot be checked: {why}; you need {ROLE}, and your key in your profile"
        )
        return
    if missing:
        raise _rights(config, email, missing)
    _check_profile(config, profile)


def _missing(config: ClusterConfig, google: Google) -> tuple[str, ...]:
    """The permissions that the account lacks. A machine with a service account needs actAs."""
    needed = [LOGIN, ACT_AS] if config.bucket or config.data_buckets else [LOGIN]
    path = f"v1/projects/{config.project}:testIamPermissions"
    response = google.send("POST", "cloudresourcemanager", path, {"permissions": needed})
    granted = response.get("permissions", ())
    return tuple(permission for permission in needed if permission not in granted)


def _rights(config: ClusterConfig, email: str, missing: tuple[str, ...]) -> ConfigError:
    kind = "serviceAccount" if email.endswith(".gserviceaccount.com") else "user"
    return ConfigError(
        f"oslogin: {email} cannot log in to the machines: no permission {' and '.join(missing)}",
        f"gcloud projects add-iam-policy-binding {config.project} "
        f"--member={kind}:{email} --role={ROLES[missing[0]]}",
    )


def _check_profile(config: ClusterConfig, profile: dict[str, object]) -> None:
    accounts, keys = profile.get("posixAccounts") or [], profile.get("sshPublicKeys") or {}
    assert isinstance(accounts, list) and isinstance(keys, dict)
    users = [str(account.get("username")) for account in accounts]
    if users and config.ssh_user not in users:
        raise ConfigError(
            f"ssh_user: {config.ssh_user!r} is not your OS Login user, which is "
            f"{' or '.join(users)}",
            set_("ssh_user", users[0]),
        )
    own_key = config.public_key.split()[:2]
    if not any(str(key.get("key", "")).split()[:2] == own_key for key in keys.values()):
        raise ConfigError(
            "public_key_file: this key is not in your OS Login profile",
            "gcloud compute os-login ssh-keys add --key-file=PUBLIC_KEY_FILE",
        )
