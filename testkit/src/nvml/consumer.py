"""Walks what nvidia-ml-py wraps of the stand-in, and compares with the scenario, read by this program itself.

Arguments: the scenario, the step, and the functions that the stand-in exports, in a file. LD_LIBRARY_PATH leads to the
library. Prints how many values agree, which functions were walked, and which could be; ends with an error that names
every value that does not agree.
"""

import ctypes
import math
import re
import sys
import tomllib

import pynvml as n

NOT_SUPPORTED, NOT_FOUND, NO_FUNCTION, INVALID = 3, 6, 13, 2
ALL = 0xFFFFFFFF
path, step, exported = sys.argv[1], int(sys.argv[2]), set(open(sys.argv[3]).read().split())
with open(path, "rb") as file:
    scenario = tomllib.load(file)
missing = set(scenario.get("missing", []))
seconds = step * scenario.get("step_seconds", 1)
agree, wrong, walked = 0, [], set()

# Which functions are called: the pointer that the wrapper asks for.
original = n._nvmlGetFunctionPointer
n._nvmlGetFunctionPointer = lambda name: (walked.add(name), original(name))[1]


class Code(Exception):
    """The code that is expected in place of a value."""


def at(value):
    if isinstance(value, dict):
        if "steps" in value:
            return value["steps"][min(step, len(value["steps"]) - 1)]
        return value.get("start", 0) + value.get("per_step", 0) * step + value.get("per_second", 0) * seconds
    return int(value) if isinstance(value, bool) else value


def moves(table):
    return any(k in table and not isinstance(table[k], dict) for k in ("start", "per_step", "per_second", "steps"))


def over(below, own):
    out = dict(below)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = over(out[key], value) if both and not moves(value) else value
    return out


def plain(value):
    """Values of either side as things that can be compared."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def same(found, expected):
    if isinstance(expected, float) and isinstance(found, float):
        return found == expected or math.isnan(found) and math.isnan(expected)
    return plain(found) == plain(expected)


def check(what, call, expected, function=None):
    """`expected` is a function that gives a value or raises Code."""
    global agree
    try:
        want = expected()
    except Code as code:
        want = code
    if function in missing:
        want = Code(NO_FUNCTION)
    try:
        found = call()
    except n.NVMLError as error:
        found = error
    if isinstance(want, Code):
        good = isinstance(found, n.NVMLError) and found.value == want.args[0]
    else:
        good = not isinstance(found, n.NVMLError) and same(found, want)
    if good:
        agree += 1
    else:
        wrong.append(f"{what}: expected {want!r}, found {found!r}")


class Gpu:
    def __init__(self, table):
        self.table = table
        layout = table.get("mig", {}).get("layout")
        self.mig = table["mig"]["layouts"][layout] if layout else []
        self.cut = self.get("mig.current", 0) == 1

    def get(self, path, default=None):
        value = self.table
        for word in path.split("."):
            if not isinstance(value, dict) or word not in value:
                if default is None:
                    raise Code(NOT_SUPPORTED)
                return default
            value = value[word]
        return at(value)

    def has(self, path):
        try:
            self.get(path)
            return True
        except Code:
            return False

    def uncut(self, path):
        if self.cut:
            raise Code(NOT_SUPPORTED)
        return self.get(path)

    def links(self):
        each, own = (self.table.get("nvlink", {}).get(k, {}) for k in ("each", "link"))
        return [over(each, own.get(str(i), {})) for i in range(self.get("nvlink.links", 0))]


def link(gpu, number, key):
    links = gpu.links()
    if not links or key not in links[number]:
        raise Code(NOT_SUPPORTED)
    return at(links[number][key])


def address(handle):
    return ctypes.cast(handle, ctypes.c_void_p).value


def whole(value):
    return math.floor(value)


SIMPLE = """
nvmlDeviceGetBoardId board_id|nvmlDeviceGetMultiGpuBoard multi_gpu_board|nvmlDeviceGetBrand brand
nvmlDeviceGetBoardPartNumber board_part|nvmlDeviceGetSerial serial|nvmlDeviceGetModuleId module_id
nvmlDeviceGetNumaNodeId numa.node|nvmlDeviceGetAddressingMode addressing_mode|nvmlDeviceGetMinorNumber minor
nvmlDeviceGetUUID uuid|nvmlDeviceGetName name|nvmlDeviceGetInforomImageVersion inforom.image
nvmlDeviceGetInforomConfigurationChecksum inforom.checksum|nvmlDeviceGetDisplayMode display_mode
nvmlDeviceGetDisplayActive display_active|nvmlDeviceGetPersistenceMode persistence
nvmlDeviceGetFanSpeed fan_speed|nvmlDeviceGetNumFans fans|nvmlDeviceGetMarginTemperature temperature.margin
nvmlDeviceGetPowerState pstate|nvmlDeviceGetPerformanceState pstate|nvmlDeviceGetPowerManagementMode power.managed
nvmlDeviceGetPowerManagementLimit power.limit|nvmlDeviceGetPowerManagementDefaultLimit power.default
nvmlDeviceGetEnforcedPowerLimit power.enforced|nvmlDeviceGetPowerUsage power.usage
nvmlDeviceGetTotalEnergyConsumption energy|nvmlDeviceGetComputeMode compute_mode
nvmlDeviceGetPcieReplayCounter pcie.replay|nvmlDeviceGetVbiosVersion vbios|nvmlDeviceGetSupportedEventTypes events
nvmlDeviceGetCurrPcieLinkGeneration pcie.gen|nvmlDeviceGetMaxPcieLinkGeneration pcie.max_gen
nvmlDeviceGetCurrPcieLinkWidth pcie.width|nvmlDeviceGetMaxPcieLinkWidth pcie.max_width
nvmlDeviceGetGpuMaxPcieLinkGeneration pcie.gpu_max_gen|nvmlDeviceGetPcieSpeed pcie.speed
nvmlDeviceGetPcieLinkMaxSpeed pcie.max_speed|nvmlDeviceGetSupportedClocksThrottleReasons reasons_supported
nvmlDeviceGetSupportedClocksEventReasons reasons_supported|nvmlDeviceGetCurrentClocksThrottleReasons reasons
nvmlDeviceGetCurrentClocksEventReasons reasons|nvmlDeviceGetAccountingMode accounting
nvmlDeviceGetRetiredPagesPendingStatus retired.pending|nvmlDeviceGetVirtualizationMode virtualization_mode
nvmlDeviceGetGspFirmwareVersion gsp.version|nvmlDeviceGetArchitecture architecture|nvmlDeviceGetIrqNum irq
nvmlDeviceGetNumGpuCores cores|nvmlDeviceGetPowerSource power.source|nvmlDeviceGetMemoryBusWidth memory.bus_width
nvmlDeviceGetUnrepairableMemoryFlag_v1 unrepairable|nvmlGpmQueryIfStreamingEnabled gpm.streaming
"""
CLOCKS = ["graphics", "sm", "memory", "video"]
LOCATIONS = ["l1", "l2", "device", "register", "texture", "shared", "cbu", "sram"]
ERRORS, COUNTERS = ["corrected", "uncorrected"], ["volatile", "aggregate"]
VIOLATIONS = {0: "power", 1: "thermal", 2: "sync_boost", 3: "board_limit", 4: "low_utilization", 5: "reliability"}
VIOLATIONS |= {10: "app_clocks", 11: "base_clocks"}
THRESHOLDS = ["shutdown", "slowdown", "mem_max", "gpu_max", "acoustic_min", "acoustic_current", "acoustic_max"]


def walk(index, gpu):
    h = n.nvmlDeviceGetHandleByIndex(index)

    def ask(function, expected, *arguments, take=lambda v: v):
        wrapper = {"nvmlDeviceGetMemoryInfo_v2": "nvmlDeviceGetMemoryInfo"}.get(function, function)
        call = lambda: take(getattr(n, wrapper)(h, *arguments))
        check(f"GPU {index} {function}{arguments}", call, expected, function)

    def key(path):
        return lambda: gpu.get(path)

    for pair in re.findall(r"(nvml\w+) ([\w.]+)", SIMPLE):
        ask(pair[0], key(pair[1]))
    if not gpu.get("gpm.supported", 0):
        wrong[:] = [w for w in wrong if "QueryIfStreaming" not in w]
    for by, path in (("UUID", "uuid"), ("PciBusId", "pci.bus_id"), ("Serial", "serial")):
        find = getattr(n, f"nvmlDeviceGetHandleBy{by}")
        check(by, lambda: address(find(gpu.get(path).encode())), lambda: address(h))
    ask("nvmlDeviceGetIndex", lambda: index)
    ask("nvmlDeviceGetBusType", lambda: 2)
    ask("nvmlDeviceGetCudaComputeCapability", lambda: [int(p) for p in gpu.get("compute_capability").split(".")])
    for number, name in enumerate(["oem", "ecc", "power"]):
        ask("nvmlDeviceGetInforomVersion", key(f"inforom.{name}"), number)
    ask("nvmlDeviceValidateInforom", lambda: gpu.get("inforom.valid") and None)
    ask("nvmlDeviceGetGspFirmwareMode", lambda: [gpu.get("gsp.mode"), gpu.get("gsp.default")])
    mask = lambda path: lambda: [gpu.get(path) % 2**64, 0]
    ask("nvmlDeviceGetCpuAffinity", mask("numa.cpus"), 2, take=list)
    ask("nvmlDeviceGetCpuAffinityWithinScope", mask("numa.cpus"), 2, 0, take=list)
    ask("nvmlDeviceGetMemoryAffinity", mask("numa.memory"), 2, 0, take=list)
    text = gpu.get("pci.bus_id")
    domain, bus, device = (int(p, 16) for p in re.split("[:.]", text)[:3])
    ids = [gpu.get("pci.device_id"), gpu.get("pci.subsystem_id")]
    pci = lambda p: [p.domain, p.bus, p.device, p.pciDeviceId, p.pciSubSystemId, p.busId]
    ask("nvmlDeviceGetPciInfo_v3", lambda: [domain, bus, device, *ids, text], take=pci)
    info = n.nvmlPciInfoExt_v1_t(version=n.nvmlPciInfoExt_v1)
    ask("nvmlDeviceGetPciInfoExt", lambda: [domain, bus, device, *ids, text], ctypes.byref(info), take=lambda _: pci(info))
    for number, clock in enumerate(CLOCKS):
        sets = [f"clocks.{clock}"] + [f"clocks.{s}.{clock}" for s in ("application", "default", "boost")]
        ask("nvmlDeviceGetClockInfo", key(sets[0]), number)
        ask("nvmlDeviceGetMaxClockInfo", key(f"clocks.max.{clock}"), number)
        ask("nvmlDeviceGetApplicationsClock", key(sets[1]), number)
        ask("nvmlDeviceGetDefaultApplicationsClock", key(sets[2]), number)
        ask("nvmlDeviceGetMaxCustomerBoostClock", key(sets[3]), number)
        for kind, path in enumerate(sets):
            ask("nvmlDeviceGetClock", key(path), number, kind)
    ask("nvmlDeviceGetTemperature", key("temperature.gpu"), 0)
    check("nvmlDeviceGetTemperatureV", lambda: n.nvmlDeviceGetTemperatureV1(h, 0), key("temperature.gpu"), "nvmlDeviceGetTemperatureV")
    for number, threshold in enumerate(THRESHOLDS):
        ask("nvmlDeviceGetTemperatureThreshold", key(f"threshold.{threshold}"), number)
    ask("nvmlDeviceGetFanSpeed_v2", key("fan_speed"), 0)
    ask("nvmlDeviceGetPowerManagementLimitConstraints", lambda: [gpu.get("power.min"), gpu.get("power.max")])
    ask("nvmlDeviceGetPcieThroughput", key("pcie.tx"), 0)
    ask("nvmlDeviceGetPcieThroughput", key("pcie.rx"), 1)
    total, reserved, used = gpu.get("memory.total"), gpu.get("memory.reserved"), gpu.get("memory.used")
    free = total - reserved - used
    ask("nvmlDeviceGetMemoryInfo", lambda: [total, free, used + reserved], take=lambda m: [m.total, m.free, m.used])
    ask("nvmlDeviceGetMemoryInfo_v2", lambda: [total, reserved, free, used], n.nvmlMemory_v2,
        take=lambda m: [m.total, m.reserved, m.free, m.used])
    ask("nvmlDeviceGetConfComputeMemSizeInfo", lambda: [0, total >> 10],
        take=lambda m: [m.protectedMemSizeKib, m.unprotectedMemSizeKib])
    bar = lambda: [gpu.get("bar1.total"), gpu.get("bar1.total") - gpu.get("bar1.used"), gpu.get("bar1.used")]
    ask("nvmlDeviceGetBAR1MemoryInfo", bar, take=lambda b: [b.bar1Total, b.bar1Free, b.bar1Used])
    ask("nvmlDeviceGetUtilizationRates", lambda: [gpu.uncut("utilization.gpu"), gpu.uncut("utilization.memory")],
        take=lambda u: [u.gpu, u.memory])
    for name, engine in (("Encoder", "encoder"), ("Decoder", "decoder"), ("Jpg", "jpeg"), ("Ofa", "ofa")):
        ask(f"nvmlDeviceGet{name}Utilization", lambda: gpu.uncut(f"utilization.{engine}"), take=lambda u: u[0])
    ecc(ask, gpu)
    rows(ask, gpu)
    links(index, h, ask, gpu)
    fields(index, h, gpu)
    structs(ask, gpu)
    processes(index, h, gpu)
    gpm(index, h, gpu, None, gpu.table.get("gpm", {}).get("metrics", {}))
    mig(index, h, ask, gpu)


def ecc(ask, gpu):
    ask("nvmlDeviceGetEccMode", lambda: [gpu.get("ecc.mode"), gpu.get("ecc.pending")])
    ask("nvmlDeviceGetDefaultEccMode", lambda: [gpu.get("ecc.default")])
    for c, counter in enumerate(COUNTERS):
        for e, error in enumerate(ERRORS):
            at_ = lambda place: lambda: gpu.get(f"ecc.{counter}.{error}.{place}")
            ask("nvmlDeviceGetTotalEccErrors", at_("total"), e, c)
            four = lambda: [at_(p)() for p in ("l1", "l2", "device", "register")]
            ask("nvmlDeviceGetDetailedEccErrors", four, e, c,
                take=lambda d: [d.l1Cache, d.l2Cache, d.deviceMemory, d.registerFile])
            for number, place in enumerate(LOCATIONS):
                ask("nvmlDeviceGetMemoryErrorCounter", at_(place), e, c, number)
    names = "aggregate_parity aggregate_secded aggregate_corrected volatile_parity volatile_secded volatile_corrected"
    names = (names + " l2 sm pcie mcu other threshold_exceeded").split()
    status = n.c_nvmlEccSramErrorStatus_v1_t()
    ask("nvmlDeviceGetSramEccErrorStatus", lambda: [gpu.get(f"sram.{k}") for k in names], ctypes.byref(status),
        take=lambda _: [getattr(status, f) for f, _ in status._fields_[1:]])


def rows(ask, gpu):
    def four():
        if gpu.mig:
            raise Code(NOT_SUPPORTED)
        return [gpu.get(f"remap.{k}") for k in ("corrected", "uncorrected", "pending", "failure")]

    ask("nvmlDeviceGetRemappedRows", four)
    names = ("max", "high", "partial", "low", "none")
    ask("nvmlDeviceGetRowRemapperHistogram", lambda: [gpu.get(f"remap.histogram.{k}") for k in names],
        take=lambda r: [getattr(r, k) for k in names])
    ask("nvmlDeviceGetRepairStatus", lambda: [gpu.get("repair.channel"), gpu.get("repair.tpc")])
    for number, kind in enumerate(("sbe", "dbe")):
        pages = lambda: gpu.get("retired.pending") * 0 or gpu.table["retired"].get(kind, [])
        ask("nvmlDeviceGetRetiredPages", pages, number)
        ask("nvmlDeviceGetRetiredPages_v2", pages, number, take=lambda p: [x["address"] for x in p])
    for policy, name in VIOLATIONS.items():
        ask("nvmlDeviceGetViolationStatus", lambda: gpu.get(f"violation.{name}"), policy, take=lambda v: v.violationTime)


def links(index, h, ask, gpu):
    count = max(1, len(gpu.links()))
    for i in range(count):
        of = lambda key: lambda: link(gpu, i, key)
        ask("nvmlDeviceGetNvLinkState", of("state"), i)
        ask("nvmlDeviceGetNvLinkVersion", of("version"), i)
        ask("nvmlDeviceGetNvLinkRemoteDeviceType", of("remote_type"), i)
        ask("nvmlDeviceGetNvLinkRemotePciInfo", of("remote_pci"), i, take=lambda p: p.busId)
        for bit in range(6):
            ask("nvmlDeviceGetNvLinkCapability", lambda: of("capabilities")() >> bit & 1, i, bit)
        for number, name in enumerate(("replay", "recovery", "crc_flit", "crc_data", "ecc_data")):
            ask("nvmlDeviceGetNvLinkErrorCounter", of(f"{name}_error_count"), i, number)
    for other in range(n.nvmlDeviceGetCount()):
        second = n.nvmlDeviceGetHandleByIndex(other)
        ask("nvmlDeviceGetP2PStatus", lambda: 0 if gpu.links() else 5, second, 0)
        ask("nvmlDeviceGetTopologyCommonAncestor", lambda: 0 if other == index else 50, second)


SAME = {
    "ECC_CURRENT": "ecc.mode", "ECC_PENDING": "ecc.pending", "RETIRED_PENDING": "retired.pending",
    "MEMORY_TEMP": "temperature.memory", "TOTAL_ENERGY_CONSUMPTION": "energy", "PCIE_REPLAY_COUNTER": "pcie.replay",
    "PCIE_REPLAY_ROLLOVER_COUNTER": "pcie.replay_rollover", "REMAPPED_COR": "remap.corrected",
    "REMAPPED_UNC": "remap.uncorrected", "REMAPPED_PENDING": "remap.pending", "REMAPPED_FAILURE": "remap.failure",
    "POWER_AVERAGE": "power.average", "POWER_INSTANT": "power.instant", "POWER_MIN_LIMIT": "power.min",
    "POWER_MAX_LIMIT": "power.max", "POWER_DEFAULT_LIMIT": "power.default", "POWER_CURRENT_LIMIT": "power.enforced",
    "POWER_REQUESTED_LIMIT": "power.limit", "TEMPERATURE_SHUTDOWN_TLIMIT": "tlimit.shutdown",
    "TEMPERATURE_SLOWDOWN_TLIMIT": "tlimit.slowdown", "TEMPERATURE_MEM_MAX_TLIMIT": "tlimit.mem_max",
    "TEMPERATURE_GPU_MAX_TLIMIT": "tlimit.gpu_max", "GET_GPU_RECOVERY_ACTION": "recovery_action",
    "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN": "reason_time.sw_thermal",
    "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": "reason_time.hw_thermal",
    "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": "reason_time.hw_power_brake",
    "PERF_POLICY_POWER": "violation.power", "PERF_POLICY_THERMAL": "violation.thermal",
    "PERF_POLICY_SYNC_BOOST": "violation.sync_boost", "PERF_POLICY_BOARD_LIMIT": "violation.board_limit",
    "PERF_POLICY_LOW_UTILIZATION": "violation.low_utilization", "PERF_POLICY_RELIABILITY": "violation.reliability",
    "PERF_POLICY_TOTAL_APP_CLOCKS": "violation.app_clocks", "PERF_POLICY_TOTAL_BASE_CLOCKS": "violation.base_clocks",
    "NVLINK_LINK_COUNT": "nvlink.links",
}
PLACES = {"TOTAL": "total", "L1": "l1", "L2": "l2", "DEV": "device", "REG": "register", "TEX": "texture", "CBU": "cbu"}


def field(gpu, name, scope):
    """A field as the scenario states it; names of fields of links that have no number of a link take `scope`."""
    if name in gpu.table.get("fields", {}):
        return at(gpu.table["fields"][name])
    if name in SAME:
        return gpu.get(SAME[name])
    if name in ("RETIRED_SBE", "RETIRED_DBE"):
        gpu.get("retired.pending")
        return len(gpu.table["retired"].get(name[8:].lower(), []))
    if words := re.fullmatch("ECC_(SBE|DBE)_(VOL|AGG)_(\\w+)", name):
        counter = {"VOL": "volatile", "AGG": "aggregate"}[words[2]]
        return gpu.get(f"ecc.{counter}.{ERRORS[words[1] == 'DBE']}.{PLACES[words[3]]}")
    if not name.startswith("NVLINK_"):
        raise Code(NOT_SUPPORTED)
    key, number = name[7:], scope
    if words := re.fullmatch("(.*)_L([0-9]+)", key):
        key, number = words[1], int(words[2])
    elif key.endswith("_TOTAL"):
        key, number = key[:-6], ALL
    elif key.endswith("_COMMON"):
        key, number = key[:-7], 0
    key = re.sub("^GET_(?=(STATE|VERSION|POWER_STATE)$)", "", key).replace("GET_SPEED", "SPEED_MBPS").lower()
    older = {"error_dl_replay": "replay_error_count", "error_dl_recovery": "recovery_error_count",
             "error_dl_crc": "crc_flit_error_count"}
    every = gpu.links()
    if not every:
        raise Code(NOT_SUPPORTED)
    if number != ALL and number >= len(every):
        raise Code(INVALID)
    values = []
    for one in every if number == ALL else [every[number]]:
        one = one.get(key, one.get(older.get(key)))
        if one is None:
            raise Code(NOT_SUPPORTED)
        values.append(at(one))
    # Packed: 4 bits of mantissa above 8 bits of negative exponent.
    ratio = lambda packed: (packed >> 8 & 15) * 10.0 ** -(packed & 255)
    return max(values, key=ratio) if key.endswith("_ber") else sum(values)


def older_id(name, number):
    """nvidia-ml-py has the newer numbers."""
    version = [int(p) for p in scenario["system"]["driver"].split(".")[:2]]
    if version >= [580, 82] or not 251 <= number <= 273:
        return number
    if version < [575]:
        return number if number < 269 else 9999
    return number - 18 if number >= 269 else number + 5


def fields(index, h, gpu):
    names = [k for k in vars(n) if k.startswith("NVML_FI_") and k != "NVML_FI_MAX"]
    wanted = []
    for name in names:
        number = older_id(name, getattr(n, name))
        short = name.removeprefix("NVML_FI_").removeprefix("DEV_")
        short = {"CLOCKS_EVENT_REASON_SW_POWER_CAP": "PERF_POLICY_POWER",
                 "CLOCKS_EVENT_REASON_SYNC_BOOST": "PERF_POLICY_SYNC_BOOST"}.get(short, short)
        for scope in (0, 5, ALL):
            wanted.append((short, number, scope))
    values = n.nvmlDeviceGetFieldValues(h, [(number, scope) for _, number, scope in wanted])
    kinds = {1: "uiVal", 3: "ullVal", 5: "siVal"}
    for (name, number, scope), value in zip(wanted, values):
        def found():
            if value.nvmlReturn:
                raise n.NVMLError(value.nvmlReturn)
            return getattr(value.value, kinds[value.valueType])

        def expected():
            if number > 273:
                raise Code(INVALID)
            return whole(field(gpu, name, scope))

        check(f"GPU {index} field {name} of {scope}", found, expected)
    check("ClearFieldValues", lambda: n.nvmlDeviceClearFieldValues(h, [83]), lambda: (_ for _ in ()).throw(Code(3)))


def structs(ask, gpu):
    def guid(path):
        return bytes.fromhex(gpu.get(path).replace("-", ""))

    def fabric(*more):
        return [gpu.get("fabric.state")] + [gpu.get(f"fabric.{k}") for k in ("status", "clique", *more)] + [guid("fabric.uuid")]

    take = lambda i, *more: [i.state, i.status, i.cliqueId, *(getattr(i, m) for m in more), bytes(i.clusterUuid).hex()]
    hexed = lambda values: lambda: [*values()[:-1], values()[-1].hex()]
    for info, more, named in (
        (n.c_nvmlGpuFabricInfo_v2_t(), ["health_mask"], ["healthMask"]),
        (n.c_nvmlGpuFabricInfo_v3_t(), ["health_mask", "health_summary"], ["healthMask", "healthSummary"]),
    ):
        ask("nvmlDeviceGetGpuFabricInfoV", hexed(lambda: fabric(*more)), ctypes.byref(info), take=lambda _: take(info, *named))
    oldest = n.c_nvmlGpuFabricInfo_t()
    ask("nvmlDeviceGetGpuFabricInfo", hexed(fabric), ctypes.byref(oldest), take=lambda _: take(oldest))
    platform = n.c_nvmlPlatformInfo_v2_t()
    numbers = ("slot", "tray", "host", "peer", "module")
    raw = lambda: bytes(platform)
    ask("nvmlDeviceGetPlatformInfo",
        lambda: [guid("platform.ib_guid").hex(), gpu.get("platform.chassis_serial"), *(gpu.get(f"platform.{k}") for k in numbers)],
        ctypes.byref(platform),
        take=lambda _: [raw()[4:20].hex(), raw()[20:36].rstrip(b"\0"), *raw()[36:41]])


def processes(index, h, gpu):
    everything = gpu.table.get("processes", [])

    def listed(of, kind):
        return [[p["pid"], at(p["memory"]), p.get("gi", ALL), p.get("ci", ALL)]
                for p in of if p.get("kind", "compute") == kind]

    take = lambda ps: [[p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId] for p in ps]
    for mode, (name, kind) in enumerate((("Compute", "compute"), ("Graphics", "graphics"), ("MPSCompute", "mps"))):
        function = "nvmlDeviceGetRunningProcessDetailList"
        details = lambda: n.nvmlDeviceGetRunningProcessDetailList(h, n.nvmlProcessDetailList_v1, mode)
        check(f"GPU {index} {function}", lambda: take(details()), lambda: listed(everything, kind), function)
        for version in (2, 3):
            function = f"nvmlDeviceGet{name}RunningProcesses_v{version}"
            check(f"GPU {index} {function}", lambda: take(getattr(n, function)(h)), lambda: listed(everything, kind), function)
    for process in everything:
        if "name" in process:
            check("process name", lambda: n.nvmlSystemGetProcessName(process["pid"]), lambda: process["name"])

    def measured():
        if gpu.cut:
            raise Code(NOT_SUPPORTED)
        found = [[p["pid"], p["sm"], p["mem"], p["enc"], p["dec"]] for p in everything if "sm" in p]
        if not found:
            raise Code(NOT_FOUND)
        return found

    take = lambda ps: [[p.pid, p.smUtil, p.memUtil, p.encUtil, p.decUtil] for p in ps]
    for function in ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"):
        check(f"GPU {index} {function}", lambda: take(getattr(n, function)(h, 0)), measured, function)


def gpm(index, h, gpu, instance, metrics):
    supported = gpu.get("gpm.supported", 0)
    check("GPM", lambda: n.nvmlGpmQueryDeviceSupport(h).isSupportedDevice, lambda: supported)
    samples = [n.nvmlGpmSampleAlloc() for _ in range(2)]
    for sample in samples:
        if instance is None:
            call = lambda: address(n.nvmlGpmSampleGet(h, sample))
        else:
            call = lambda: address(n.nvmlGpmMigSampleGet(h, instance, sample))

        def expected():
            if not supported:
                raise Code(NOT_SUPPORTED)
            return address(sample)

        check(f"GPU {index} GPM sample", call, expected)
    if supported:
        names = [k for k in vars(n) if k.startswith("NVML_GPM_METRIC_") and not k.endswith("_MAX")]
        names = [k for k in names if getattr(n, k) < n.NVML_GPM_METRIC_MAX]
        get = n.c_nvmlGpmMetricsGet_t(version=1, numMetrics=len(names), sample1=samples[0], sample2=samples[1])
        for i, name in enumerate(names):
            get.metrics[i].metricId = getattr(n, name)
        n.nvmlGpmMetricsGet(get)
        for i, name in enumerate(names):
            metric = get.metrics[i]

            def found():
                if metric.nvmlReturn:
                    raise n.NVMLError(metric.nvmlReturn)
                return metric.value

            def stated():
                short = name.removeprefix("NVML_GPM_METRIC_")
                if short not in metrics:
                    raise Code(NOT_SUPPORTED)
                return float(at(metrics[short]))

            check(f"GPU {index} {name}", found, stated)
    for sample in samples:
        n.nvmlGpmSampleFree(sample)


def mig(index, h, ask, gpu):
    ask("nvmlDeviceGetMigMode", lambda: [gpu.get("mig.current"), gpu.get("mig.pending")])
    ask("nvmlDeviceGetMaxMigDeviceCount", lambda: gpu.get("mig.max", 0))
    ask("nvmlDeviceIsMigDeviceHandle", lambda: 0, take=lambda c: c.value)
    ask("nvmlDeviceGetAttributes_v2", lambda: gpu.get("no such key"))
    profiles = gpu.table.get("mig", {}).get("profiles", [])
    for number in range(5):
        stated = [p for p in profiles if p["profile"] == number]

        def expected():
            if not stated:
                raise Code(NOT_SUPPORTED)
            p = stated[0]
            keys = ("copy", "decoders", "encoders", "jpeg", "ofa")
            return [p["id"], p["slices"], p["instances"], p["sm"], *(p.get(k, 0) for k in keys), p["memory_mb"], p["name"]]

        take = lambda p: [p.id, p.sliceCount, p.instanceCount, p.multiprocessorCount, p.copyEngineCount, p.decoderCount,
                          p.encoderCount, p.jpegCount, p.ofaCount, p.memorySizeMB, p.name]
        ask("nvmlDeviceGetGpuInstanceProfileInfo", expected, number, 2, take=take)
        check("first version", lambda: n.nvmlDeviceGetGpuInstanceProfileInfo(h, number, 1).id, lambda: expected()[0])
    for profile in profiles:
        number = profile["id"]
        mine = {d["gi"] for d in gpu.mig if d["profile"] == number}
        ask("nvmlDeviceGetGpuInstanceRemainingCapacity", lambda: profile["instances"] - len(mine), number)
        array, count = (n.c_nvmlGpuInstance_t * 8)(), ctypes.c_uint()
        ask("nvmlDeviceGetGpuInstances", lambda: len(mine), number, array, ctypes.byref(count), take=lambda _: count.value)
        found = {n.nvmlGpuInstanceGetInfo(array[i]).id for i in range(count.value)}
        check("GPU instances", lambda: found, lambda: mine)
    for number, device in enumerate(gpu.mig):
        mig_device(index, number, h, gpu, device)

    def none():
        raise Code(NOT_FOUND if gpu.cut and len(gpu.mig) < gpu.get("mig.max") else INVALID if gpu.cut else NOT_SUPPORTED)

    ask("nvmlDeviceGetMigDeviceHandleByIndex", none, len(gpu.mig))


def mig_device(index, number, h, gpu, device):
    m = n.nvmlDeviceGetMigDeviceHandleByIndex(h, number)
    where = f"GPU {index} MIG {number}"
    ask = lambda call, expected: check(where, call, lambda: expected)
    ask(lambda: address(n.nvmlDeviceGetHandleByUUID(device["uuid"].encode())), address(m))
    ask(lambda: address(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)), address(h))
    ask(lambda: [n.nvmlDeviceGetUUID(m), n.nvmlDeviceGetName(m)], [device["uuid"], device["name"]])
    ask(lambda: [n.nvmlDeviceGetGpuInstanceId(m), n.nvmlDeviceGetComputeInstanceId(m)], [device["gi"], device["ci"]])
    ask(lambda: n.nvmlDeviceIsMigDeviceHandle(m).value, 1)
    total, reserved, used = (at(device[k]) for k in ("total", "reserved", "used"))
    memory = n.nvmlDeviceGetMemoryInfo(m, n.nvmlMemory_v2)
    ask(lambda: [memory.total, memory.reserved, memory.used, memory.free], [total, reserved, used, total - reserved - used])
    a = n.nvmlDeviceGetAttributes_v2(m)
    keys = ("copy", "decoders", "encoders", "jpeg", "ofa")
    ask(lambda: [a.multiprocessorCount, a.sharedCopyEngineCount, a.sharedDecoderCount, a.sharedEncoderCount,
                 a.sharedJpegCount, a.sharedOfaCount, a.gpuInstanceSliceCount, a.computeInstanceSliceCount, a.memorySizeMB],
        [device["sm"], *(device.get(k, 0) for k in keys), device["slices"], device.get("ci_slices", device["slices"]),
         device["memory_mb"]])
    check(where, lambda: n.nvmlDeviceGetPowerUsage(m), lambda: gpu.get("no such key"))
    mine = [p["pid"] for p in gpu.table.get("processes", []) if (p.get("gi"), p.get("ci")) == (device["gi"], device["ci"])]
    ask(lambda: [p.pid for p in n.nvmlDeviceGetComputeRunningProcesses_v3(m)], mine)
    instance = n.nvmlDeviceGetGpuInstanceById(h, device["gi"])
    info = n.nvmlGpuInstanceGetInfo(instance)
    ask(lambda: [address(info.device), info.id,
                 info.profileId, info.placement.start, info.placement.size],
        [address(h), device["gi"], device["profile"], device.get("start", 0),
         device.get("size", device["slices"])])
    array, count = (n.c_nvmlComputeInstance_t * 8)(), ctypes.c_uint()
    n.nvmlGpuInstanceGetComputeInstances(instance, 0, array, ctypes.byref(count))
    ask(lambda: {n.nvmlComputeInstanceGetInfo_v2(array[i]).id for i in range(count.value)},
        {d["ci"] for d in gpu.mig if d["gi"] == device["gi"]})
    compute = n.nvmlGpuInstanceGetComputeInstanceById(instance, device["ci"])
    ask(lambda: n.nvmlComputeInstanceGetInfo_v2(compute).id, device["ci"])
    gpm(index, h, gpu, device["gi"], device.get("gpm", {}))


def system():
    check("driver", n.nvmlSystemGetDriverVersion, lambda: scenario["system"]["driver"])
    check("NVML", n.nvmlSystemGetNVMLVersion, lambda: scenario["system"]["nvml"])
    check("CUDA", n.nvmlSystemGetCudaDriverVersion, lambda: scenario["system"]["cuda"])
    check("CUDA", n.nvmlSystemGetCudaDriverVersion_v2, lambda: scenario["system"]["cuda"])
    branch = scenario["system"].get("branch")
    check("branch", lambda: n.nvmlSystemGetDriverBranch().branch, lambda: branch, "nvmlSystemGetDriverBranch")
    check("count", n.nvmlDeviceGetCount, lambda: len(scenario["gpus"]))
    check("text", lambda: n.nvmlErrorString(15), lambda: "GPU is lost")
    events = n.nvmlEventSetCreate()
    first = n.nvmlDeviceGetHandleByIndex(0)
    check("events", lambda: n.nvmlDeviceRegisterEvents(first, 8, events), lambda: None)
    timeout = lambda: (_ for _ in ()).throw(Code(10))
    check("wait", lambda: n.nvmlEventSetWait_v2(events, 1), timeout)
    check("free", lambda: n.nvmlEventSetFree(events), lambda: None)


n.nvmlInitWithFlags(0)
system()
for index, own in enumerate(scenario["gpus"]):
    walk(index, Gpu(over(scenario.get("gpu", {}), own)))
n.nvmlShutdown()
if wrong:
    sys.exit(f"{len(wrong)} of {len(wrong) + agree} differ:\n" + "\n".join(wrong[:40]))
# Whose wrapper nvidia-ml-py 13.615 itself gets wrong: its struct lacks a comma, and cannot be made.
broken = {"nvmlDeviceGetC2cModeInfoV"}
wrapped = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', open(n.__file__).read()))
print(agree)
print(*(exported & walked))
print(*(exported & wrapped - broken))
