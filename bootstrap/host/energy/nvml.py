"""Reads the energy and the power of this host's GPUs from NVIDIA's library."""

from __future__ import annotations

import ctypes
import glob

LIBRARY = "libnvidia-ml.so.1"
DEVICES = "/sys/bus/pci/devices"
NVIDIA, DISPLAY = "0x10de", "0x03"  # a card's vendor; the start of its class


def cards(devices: str = DEVICES) -> int:
    """How many NVIDIA GPUs this host has, even without a driver."""
    return sum(
        _line(f"{device}/vendor") == NVIDIA and _line(f"{device}/class").startswith(DISPLAY)
        for device in glob.glob(f"{glob.escape(devices)}/*")
    )


def _line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return ""


class Gpus:
    """The GPUs of this host; none without the library or a driver."""

    def __init__(self, library: str = LIBRARY) -> None:
        self.handles: list[ctypes.c_void_p] = []
        try:
            self.nvml = ctypes.CDLL(library)
            self.find()
        except (OSError, AttributeError):  # no library, or it is too old
            self.handles = []

    def find(self) -> None:
        """Set the handle of each GPU."""
        count = ctypes.c_uint()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                self.handles.append(handle)

    def millijoules(self) -> list[int | None]:
        """The energy counter of each GPU since its driver was loaded; None if it has none."""
        return [
            self.value("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.c_ulonglong())
            for handle in self.handles
        ]

    def milliwatts(self) -> list[int | None]:
        """The power of each GPU; None if it is not known."""
        return [
            self.value("nvmlDeviceGetPowerUsage", handle, ctypes.c_uint())
            for handle in self.handles
        ]

    def value(
        self, function: str, handle: ctypes.c_void_p, number: ctypes.c_uint | ctypes.c_ulonglong
    ) -> int | None:
        """The value that a function of the library returns for a GPU; None for any error."""
        failed = getattr(self.nvml, function)(handle, ctypes.byref(number))
        return None if failed else number.value
