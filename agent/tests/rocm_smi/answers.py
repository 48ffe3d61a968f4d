"""Prints what ROCm SMI returns about the first GPU: `name value`, without the values that it refuses."""

import ctypes
from ctypes import byref, c_float, c_int64, c_uint8, c_uint16, c_uint32, c_uint64

LIBRARY = ctypes.CDLL("librocm_smi64.so.1")
ALL_GPUS = c_uint64(1)
GPU = c_uint32(0)
BLOCKS = {"umc": 0, "sdma": 1, "gfx": 2}
SENSORS = {"edge": 0, "junction": 1, "memory": 2, "hbm0": 3, "hbm1": 4, "hbm2": 5, "hbm3": 6}
CURRENT = c_uint32(0)
PAGES = ["retired", "pending", "failed"]


class Page(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("size", c_uint64), ("status", c_uint32)]


class Frequencies(ctypes.Structure):
    """As in 5.2.3. Later releases have another field before the number."""

    _fields_ = [("number", c_uint32), ("current", c_uint32), ("hertz", c_uint64 * 32)]


class Table(ctypes.Structure):
    """As in 5.2.3: a table of v1.3 up to the temperatures of HBM."""

    _fields_ = [
        ("size", c_uint16), ("format", c_uint8), ("content", c_uint8),
        ("edge", c_uint16), ("hotspot", c_uint16), ("memory", c_uint16),
        ("vr_gfx", c_uint16), ("vr_soc", c_uint16), ("vr_memory", c_uint16),
        ("busy", c_uint16), ("memory_busy", c_uint16), ("media_busy", c_uint16),
        ("power", c_uint16), ("energy", c_uint64), ("clock_counter", c_uint64),
        ("average_clocks", c_uint16 * 7),
        ("sm", c_uint16), ("soc", c_uint16), ("memory_clock", c_uint16),
        ("video_clocks", c_uint16 * 4),
        ("throttle", c_uint32), ("fan", c_uint16), ("width", c_uint16), ("speed", c_uint16), ("padding", c_uint16),
        ("busy_sum", c_uint32), ("memory_busy_sum", c_uint32), ("hbm", c_uint16 * 4),
    ]


OF_TABLE = ["edge", "hotspot", "memory", "busy", "memory_busy", "power", "sm", "soc", "memory_clock", "width", "speed"]


def show(name, kind, function, *arguments):
    value = kind()
    if getattr(LIBRARY, function)(GPU, *arguments, byref(value)) == 0:
        print(name, value.value)


started = LIBRARY.rsmi_init(ALL_GPUS)
if started != 0:
    raise SystemExit(f"rsmi_init: {started}")
count = c_uint32()
LIBRARY.rsmi_num_monitor_devices(byref(count))
print("gpus", count.value)
show("pci", c_uint64, "rsmi_dev_pci_id_get")
show("unique_id", c_uint64, "rsmi_dev_unique_id_get")
show("power", c_uint64, "rsmi_dev_power_ave_get", c_uint32(0))
for name, sensor in SENSORS.items():
    show(name, c_int64, "rsmi_dev_temp_metric_get", c_uint32(sensor), CURRENT)
for kind, name in enumerate(["vram", "visible", "gtt"]):
    show(f"{name}_total", c_uint64, "rsmi_dev_memory_total_get", c_uint32(kind))
    show(f"{name}_used", c_uint64, "rsmi_dev_memory_usage_get", c_uint32(kind))
show("busy", c_uint32, "rsmi_dev_busy_percent_get")
show("memory_busy", c_uint32, "rsmi_dev_memory_busy_percent_get")
show("replays", c_uint64, "rsmi_dev_pci_replay_counter_get")
for name, bit in BLOCKS.items():
    counts = (c_uint64 * 8)()
    if LIBRARY.rsmi_dev_ecc_count_get(GPU, c_uint64(1 << bit), counts) == 0:
        print(f"{name}_corrected", counts[0])
        print(f"{name}_uncorrected", counts[1])
for clock, name in [(0, "sm"), (4, "memory_clock")]:
    found = Frequencies()
    if LIBRARY.rsmi_dev_gpu_clk_freq_get(GPU, c_uint32(clock), byref(found)) == 0:
        print(name, found.hertz[found.current])
table = Table()
if LIBRARY.rsmi_dev_gpu_metrics_info_get(GPU, byref(table)) == 0:
    for name in OF_TABLE:
        print(f"table_{name}", getattr(table, name))
    print("table_regulator", table.vr_soc)
energy, resolution, at = c_uint64(), c_float(), c_uint64()
if LIBRARY.rsmi_dev_energy_count_get(GPU, byref(energy), byref(resolution), byref(at)) == 0:
    print("energy", energy.value)
number = c_uint32()
if LIBRARY.rsmi_dev_memory_reserved_pages_get(GPU, byref(number), None) == 0:
    pages = (Page * max(number.value, 1))()
    LIBRARY.rsmi_dev_memory_reserved_pages_get(GPU, byref(number), pages)
    for status, name in enumerate(PAGES):
        print(name, sum(page.status == status for page in pages[: number.value]))
LIBRARY.rsmi_shut_down()
