"""Which runtime serves which hosts, what names it, and what a host lacks for it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from bootstrap.errors import UsageError
from bootstrap.facts.gpu import Card
from bootstrap.facts.host import HostFacts
from bootstrap.plan.runtimes import (
    ROWS,
    RUNTIMES,
    TENSORFLOW,
    Environment,
    Runtime,
    RuntimeRow,
    choose_runtime,
    missing_parts,
    preferring_installed,
    row_named,
)
from bootstrap.provision.requirements.resolve import with_packages
from bootstrap.provision.uv import local_uv
from bootstrap.runs import strategies
from bootstrap.runs.strategies import LAUNCHERS, SCRIPTS_ONLY
from railhead.documents.options.option import options_in
from railhead.documents.options.runs import ProgramOptions

CPU = RUNTIMES["tf2.18-cpu"]
GPU = RUNTIMES["tf2.18-gpu"]
NEW = RUNTIMES["tf2.21-cpu"]
V100 = ("Tesla V100-SXM2-16GB",) * 4


# The runtime that a launcher gets if no --runtime is given, and where only Python 3.13 is.
DEFAULTS = {
    None: ("tf2.18-cpu", "tf2.21-cpu"),
    "horovod": ("tf2.18-cpu", "tf2.21-cpu"),
    "tensorflow": ("tf2.18-cpu", "tf2.21-cpu"),
    "jax": ("jax0.6-cpu", "jax0.6-cpu"),
    "torch": ("torch2.10-cpu", "torch2.10-cpu"),
}


@pytest.mark.parametrize("launcher", [None, *LAUNCHERS])
def test_hosts_without_a_gpu_get_the_small_runtime(debian: HostFacts, launcher: str | None) -> None:
    chosen = choose_runtime({"h1": debian, "h2": debian}, launcher, None)
    default = RUNTIMES[DEFAULTS[launcher][0]]
    plain = launcher == "tensorflow"
    assert chosen == Environment(default, "3.11", "no GPU on any host; the default", plain=plain)
    assert chosen.horovod is (launcher in (None, "horovod"))


def test_hosts_with_gpus_get_the_one_that_drives_them(debian: HostFacts) -> None:
    chosen = choose_runtime({"h1": replace(debian, gpus=V100)}, "horovod", None)
    assert chosen.runtime == GPU
    assert chosen.why == "GPUs: Tesla V100-SXM2-16GB; the default"


@pytest.mark.parametrize(
    ("arch", "name"), [("volta", "tf2.18-gpu"), (None, "tf2.18-gpu"), ("pascal", "tf2.18-cpu")]
)
def test_a_card_whose_driver_is_still_missing_counts(
    debian: HostFacts, arch: str | None, name: str
) -> None:
    card = Card("0000:00:1e.0", "10de:1db1", None, arch)
    host = replace(debian, gpu=replace(debian.gpu, cards=(card,)))
    assert choose_runtime({"h1": host}, None, None).runtime.name == name
    if arch == "volta":
        assert choose_runtime({"h1": host}, None, None).why.startswith(
            "GPUs: NVIDIA card 10de:1db1;"
        )


@pytest.mark.parametrize("gpus", [(), V100])
def test_a_runtime_that_was_requested_is_taken(debian: HostFacts, gpus: tuple[str, ...]) -> None:
    chosen = choose_runtime({"h1": replace(debian, gpus=gpus)}, "tensorflow", "tf2.21")
    assert chosen.runtime.name == f"tf2.21-{'gpu' if gpus else 'cpu'}"
    assert chosen.why.endswith("; --runtime tf2.21")


@pytest.mark.parametrize("launcher", [None, *LAUNCHERS])
def test_hosts_with_a_newer_python_alone_get_the_newest_runtime(
    debian: HostFacts, launcher: str | None
) -> None:
    new = replace(debian, apt=False, pythons={"3.13": "/usr/bin/python3.13"})
    chosen = choose_runtime({"h1": new, "h2": new}, launcher, None)
    runtime = RUNTIMES[DEFAULTS[launcher][1]]
    passed_over = "tf2.18 has no Python that all hosts have" if runtime is NEW else "the default"
    reason, plain = f"no GPU on any host; {passed_over}", launcher == "tensorflow"
    assert chosen == Environment(runtime, "3.13", reason, plain=plain)


def test_hosts_that_have_horovod_run_other_launchers_in_the_same_environment(
    debian: HostFacts,
) -> None:
    plain = choose_runtime({"h1": debian}, "tensorflow", None)
    whole = choose_runtime({"h1": debian}, "horovod", None)
    assert plain.digest != whole.digest
    neither, one, both = (
        replace(debian, envs=frozenset(environment.digest for environment in present))
        for present in ((), (whole,), (plain, whole))
    )
    for facts, chosen in (
        ({"h1": one, "h2": one}, whole),
        ({"h1": one, "h2": both}, whole),
        ({"h1": both, "h2": both}, plain),
        ({"h1": one, "h2": neither}, plain),
    ):
        assert preferring_installed(plain, facts).digest == chosen.digest
        assert preferring_installed(whole, facts).digest == whole.digest
    # A run that continues keeps its own, also with a new host.
    facts = {"h1": one, "h2": neither}
    assert preferring_installed(plain, facts, whole.digest).digest == whole.digest
    assert preferring_installed(plain, {"h1": one}, plain.digest).digest == plain.digest


def test_hosts_that_share_no_python_of_a_runtime_are_refused(debian: HostFacts) -> None:
    new = replace(debian, apt=False, pythons={"3.13": "/usr/bin/python3.13"})
    with pytest.raises(UsageError, match="one of 3.11, 3.12, 3.10 must be on each"):
        choose_runtime({"h1": debian, "h2": new}, None, None)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_every_runtime_of_tensorflow_serves_both_its_launchers_and_no_other(
    row: RuntimeRow,
) -> None:
    both = {"horovod", "tensorflow"}
    served = {launcher for launcher in LAUNCHERS if row.supports(launcher)}
    assert served == both if row.framework is TENSORFLOW else not served & both
    assert row.horovod is row.supports(None) is (row.framework is TENSORFLOW)
    assert all(row_named(row.name, launcher) is row for launcher in served)


def test_the_built_in_training_needs_tensorflow_and_other_launchers_are_for_scripts() -> None:
    others = [row for row in ROWS.values() if row.framework is not TENSORFLOW]
    assert {*SCRIPTS_ONLY} == {launcher for row in others for launcher in row.launchers}
    assert {*LAUNCHERS} == {launcher for row in ROWS.values() for launcher in row.launchers}


def test_the_options_name_each_runtime_launcher_and_strategy() -> None:
    texts = {option.name: option.rule.text for option in options_in(ProgramOptions)}
    named = (("runtime", ROWS), ("launcher", LAUNCHERS), ("strategy", strategies.names()))
    for option, names in named:
        quoted = {*re.findall("`([a-z][a-z0-9.-]+)`", texts[option])}
        assert quoted - {"tensorflow"} == {*names} - {"tensorflow"}


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=list(RUNTIMES))
def test_a_runtime_has_keras_and_what_its_callbacks_import(runtime: Runtime) -> None:
    """On each of its Pythons: without the package tensorboard, keras.callbacks.TensorBoard and
    tf.summary fail."""
    required = (
        {"keras", "tensorboard", "tf-keras"} if runtime.framework is TENSORFLOW else {"keras"}
    )
    lines = re.findall(r"^([a-z].*?) *\\?$", runtime.lock.read_text(), re.M)
    packages = [Requirement(line) for line in lines]
    for python in runtime.row.pythons:
        host = {"python_full_version": f"{python}.0", "python_version": python}
        host |= {"platform_machine": "x86_64", "sys_platform": "linux"}
        assert required <= {p.name for p in packages if not p.marker or p.marker.evaluate(host)}


def test_a_runtime_that_does_not_serve_the_launcher_is_refused_with_the_choices(
    debian: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROWS, "no-hvd", RuntimeRow("no-hvd", "0", (), launchers=("tensorflow",)))
    with pytest.raises(UsageError) as caught:
        choose_runtime({"h1": debian}, "horovod", "no-hvd")
    expected = "runtime no-hvd does not support launcher horovod; tf2.18, tf2.21 do"
    assert (caught.value.message, caught.value.hint) == (expected, "--runtime tf2.18")
    names = "tf2.18, tf2.21, jax0.6, torch2.10, no-hvd"
    for launcher in ("horovod", None):
        with pytest.raises(UsageError, match=f"^runtime 'tf2.19': one of {names}$"):
            row_named("tf2.19", launcher)
    assert row_named("no-hvd", "tensorflow") is row_named("no-hvd", None) is ROWS["no-hvd"]
    assert Runtime(ROWS["no-hvd"], gpu=True).recipe == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"arch": "aarch64"}, "^h2 is aarch64: the runtimes are locked for x86_64 only"),
        ({"gpus": V100}, "^GPUs on h2 but none on h1, h3"),
    ],
)
def test_hosts_that_no_single_runtime_supports_are_named(
    debian: HostFacts, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        choose_runtime({"h1": debian, "h2": replace(debian, **changes), "h3": debian}, None, None)


def test_an_environments_digest_covers_all_that_goes_into_it() -> None:
    environment = Environment(CPU, "3.11", "a reason")
    others = [
        Environment(GPU, "3.11", "a reason"),
        Environment(CPU, "3.12", "a reason"),
        Environment(CPU, "3.11", "a reason", extra="tqdm==4.67.1\n"),
    ]
    assert re.fullmatch("[0-9a-f]{16}", environment.digest)
    assert environment.folder == f"~/.railhead/envs/{environment.digest}"
    assert len({environment.digest, *(other.digest for other in others)}) == 4
    assert Environment(CPU, "3.11", "another reason").digest == environment.digest


@pytest.mark.parametrize(
    ("file", "others"),
    [
        ("horovod.txt", {CPU, GPU, NEW}),
        ("horovod.sh", {CPU, GPU, NEW}),
        ("horovod_compile.sh", {CPU, GPU, NEW}),
        ("try_wheel.py", {CPU, GPU, NEW}),
        ("cuda.sh", {GPU}),
        ("cuda-headers.txt", {GPU}),
        ("cuda-parts.txt", {GPU}),
        ("runtime-tf2.18-cpu.txt", {CPU}),
        ("runtime-tf2.21-cpu.txt", {NEW}),
    ],
)
def test_another_lock_or_recipe_is_another_environment_and_wheel(
    file: str, others: set[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debian: HostFacts
) -> None:
    from bootstrap.plan import runtimes

    three = {each: Environment(each, "3.11", "") for each in (CPU, GPU, NEW)}
    before = {each: Environment(each, "3.11", "").digest for each in three}
    before_plain = {each: Environment(each, "3.11", "", plain=True).digest for each in three}
    wheels = {each: three[each].wheel_key(debian) for each in three}
    parts = [*runtimes.SCRIPTS.glob("*.sh"), *runtimes.PROBES.glob("*.py")]
    for path in [*runtimes.LOCKS.glob("*.txt"), *parts]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(runtimes, "LOCKS", tmp_path)
    monkeypatch.setattr(runtimes, "SCRIPTS", tmp_path)
    monkeypatch.setattr(runtimes, "PROBES", tmp_path)
    assert {each: Environment(each, "3.11", "").digest for each in three} == before
    with (tmp_path / file).open("a") as changed:
        changed.write("# another line\n")
    assert {each for each in three if Environment(each, "3.11", "").digest != before[each]} == (
        others
    )
    plain = {each: Environment(each, "3.11", "", plain=True) for each in three}
    kept = {each for each in three if plain[each].digest == before_plain[each]}
    assert kept == (set(three) if not file.startswith("runtime-") else set(three) - others)
    rebuilt = {each for each in wheels if three[each].wheel_key(debian) != wheels[each]}
    assert rebuilt == (set() if file.startswith("runtime-") else others)


def test_each_runtime_has_its_own_wheel(debian: HostFacts) -> None:
    with_horovod = [runtime for runtime in RUNTIMES.values() if runtime.horovod]
    keys = {Environment(each, "3.11", "").wheel_key(debian) for each in with_horovod}
    assert len(keys) == len(with_horovod)
    assert (CPU.parts, GPU.parts) == (("mpi",), ("mpi", "nccl"))


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"os": "ubuntu-24.04"}, False),
        ({"arch": "aarch64"}, False),
        ({"openmpi": "5.0.1"}, False),
        ({"openmpi": None}, True),  # apt brings the same series
        ({"openmpi": "4.1.6"}, True),
        ({"boot_id": "another", "home": "/home/ann", "memory": 1}, True),
    ],
)
def test_a_wheel_fits_one_system_python_tensorflow_and_mpi(
    debian: HostFacts, changes: dict[str, Any], same: bool
) -> None:
    environment = Environment(CPU, "3.11", "")
    key = environment.wheel_key(replace(debian, **changes))
    assert (key == environment.wheel_key(debian)) is same
    assert Environment(CPU, "3.12", "").wheel_key(debian) != environment.wheel_key(debian)
    assert Environment(CPU, "3.11", "", extra="x").wheel_key(debian) == environment.wheel_key(
        debian
    )


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=list(RUNTIMES))
def test_what_a_runtime_fetches_is_known(runtime: Any) -> None:
    for python in runtime.row.pythons:
        assert 100 < Environment(runtime, python, "").megabytes < 10_000
    assert Environment(runtime, "3.9", "").megabytes == 0


def test_the_runtime_without_gpus_fetches_less() -> None:
    sizes = [Environment(runtime, "3.11", "").megabytes for runtime in (CPU, GPU)]
    assert sizes[0] < sizes[1] / 2


CHIEF = {"mpirun": "openmpi-bin", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
BUILD = {"g++": "g++", "mpi.h": "libopenmpi-dev"}


@pytest.mark.parametrize(
    ("chief", "builds", "lacks"),
    [
        (False, False, {"mpirun": "openmpi-bin"}),
        (True, False, CHIEF),
        (False, True, {"mpirun": "openmpi-bin"} | BUILD),
        (True, True, CHIEF | BUILD),
    ],
)
def test_a_bare_host_lacks_what_its_part_in_the_cluster_asks_for(
    debian: HostFacts, chief: bool, builds: bool, lacks: dict[str, str]
) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    assert missing_parts(bare, chief=chief, builds=builds) == lacks
    assert missing_parts(debian, chief=chief, builds=builds) == {}


def test_headers_without_mpirun_are_half_of_openmpi(debian: HostFacts) -> None:
    half = replace(debian, tools={t: p for t, p in debian.tools.items() if t != "mpirun"})
    assert missing_parts(half, chief=True, builds=True) == {"mpirun": "openmpi-bin"}


FAKE = """#!/bin/sh
printf '%s\\n' "$@" >"$0.argv"
cat >"$0.stdin"
for word; do case $word in */limits.txt) cp "$word" "$0.limits" ;; esac; done
"""


def fake_uv(folder: Path, ends: str) -> Path:
    """A uv that records its arguments and ends with a given exit code."""
    path = folder / "uv"
    path.write_text(FAKE + ends)
    path.chmod(0o755)
    return path


LOCKED = r"""absl-py==2.5.1 \
    --hash=sha256:00 \
    --hash=sha256:01
tensorflow==2.18.1 \
    --hash=sha256:02
tensorflow-hub==0.16.1 \
    --hash=sha256:03
"""


@pytest.mark.parametrize("runtime", [CPU, GPU])
def test_more_packages_are_resolved_under_the_runtimes_pins(tmp_path: Path, runtime: Any) -> None:
    request = tmp_path / "requirements.txt"
    request.write_text("tensorflow-hub\n")
    uv = fake_uv(tmp_path, f"cat <<'E'\n{LOCKED}E\n")
    extra = with_packages(Environment(runtime, "3.11", ""), request, str(uv)).extra
    lines = LOCKED.splitlines(keepends=True)
    assert extra == ("".join(lines) if runtime.gpu else "".join(lines[:3] + lines[5:]))
    argv = Path(f"{uv}.argv").read_text().splitlines()
    assert argv[argv.index("--constraints") + 1] == str(runtime.lock)
    assert argv[argv.index("--python-version") + 1] == "3.11"
    assert {"--generate-hashes", "--no-emit-index-url", "-"} <= set(argv)
    assert Path(f"{uv}.stdin").read_text() == "tensorflow-hub\n"
    assert Path(f"{uv}.limits").read_text() == "tensorflow==2.18.1\ntensorflow-metadata<1.18\n"


OURS = {
    "horovod": (
        "Horovod[tensorflow] ~= 0.28  # as always",
        "installs horovod: the runtimes have it, compiled for the hosts",
    ),
    "another build": ("-i https://index\ntensorflow_gpu", "installs tensorflow-gpu, which overw"),
}


@pytest.mark.parametrize("text, why", OURS.values(), ids=OURS)
def test_packages_of_the_runtime_are_refused_before_they_are_compiled(
    tmp_path: Path, text: str, why: str
) -> None:
    request = tmp_path / "requirements.txt"
    request.write_text(f"tqdm\n{text}\n")
    with pytest.raises(UsageError, match=why):
        with_packages(Environment(CPU, "3.11", ""), request, "/nowhere/uv")


def test_horovod_is_refused_where_a_package_requires_it(tmp_path: Path) -> None:
    request = tmp_path / "requirements.txt"
    request.write_text("tensorflow_cpu==2.18.1\nelephas-horovod\n")
    uv = fake_uv(tmp_path, "echo 'horovod==0.28.1 --hash=sha256:00'")
    without = replace(NEW, row=replace(NEW.row, launchers=("tensorflow",)))
    for runtime, why in ((NEW, "has it, compiled for"), (without, "has none; tf2.18 has")):
        with pytest.raises(UsageError, match=f"installs horovod: runtime tf2.21 {why}"):
            with_packages(Environment(runtime, "3.11", ""), request, str(uv))


REAL = {
    "tensorflow==2.15.1": "you require tensorflow==2.15.1",
    "numpy<1.20": "numpy<1.20",
    "tensorflow>=2.15": None,
    "tensorflow-datasets": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("text, conflict", REAL.items(), ids=REAL)
def test_real_requirements_are_resolved_with_what_the_runtime_has(
    tmp_path: Path, text: str, conflict: str | None
) -> None:
    request = tmp_path / "requirements.txt"
    request.write_text(f"{text}\n")
    environment = Environment(CPU, "3.11", "")
    if conflict:
        with pytest.raises(UsageError, match="conflicts with runtime") as caught:
            with_packages(environment, request, local_uv())
        assert conflict in caught.value.message and caught.value.hint.startswith("loosen the ver")
        return
    names = {
        line.partition("=")[0]: line
        for line in with_packages(environment, request, local_uv()).extra.splitlines()
    }
    assert "protobuf" in names and "tensorflow" not in names
    if text == "tensorflow-datasets":  # with 1.21 its import fails under protobuf 5
        assert names["tensorflow-metadata"].startswith("tensorflow-metadata==1.17.")


def test_a_package_that_does_not_exist_is_reported_as_unknown(tmp_path: Path) -> None:
    request = tmp_path / "requirements.txt"
    request.write_text("numpyy\n")
    text = "Because numpyy was not found in the package registry and you require numpyy, ..."
    uv = fake_uv(tmp_path, f"echo '{text}' >&2; exit 1")
    with pytest.raises(UsageError) as caught:
        with_packages(Environment(CPU, "3.11", ""), request, str(uv))
    assert caught.value.hint == "check the names of the packages in requirements.txt"


def test_packages_that_do_not_go_with_the_runtime_are_reported_in_uvs_text(tmp_path: Path) -> None:
    request = tmp_path / "requirements.txt"
    request.write_text("numpy<1.20\n")
    uv = fake_uv(tmp_path, "echo 'Because you require numpy<1.20 ...' >&2; exit 1")
    with pytest.raises(UsageError, match="conflicts with runtime tf2.18-cpu") as caught:
        with_packages(Environment(CPU, "3.11", ""), request, str(uv))
    assert "Because you require numpy<1.20" in caught.value.message
    assert caught.value.hint.startswith("loosen the versions in requirements.txt")
