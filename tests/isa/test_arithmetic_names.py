"""What instruction logs call the further instructions: the intrinsics' names, refined by type where these are."""

import pytest
from lane_harness import DEVICE, local

from ascendsim.isa.instruction import TABLE
from ascendsim.record import record
from ascendsim.terms import RoundMode

NAMES = {
    "div": "vdiv", "max": "vmax", "min": "vmin", "maxs": "vmaxs", "mins": "vmins", "exp": "vexp", "ln": "vln",
    "sqrt": "vsqrt", "rsqrt": "vrsqrt", "reciprocal": "vrec", "abs": "vabs", "relu": "vrelu", "leaky_relu": "vlrelu",
    "axpy": "vaxpy", "mul_add_dst": "vmla", "fused_mul_add": "vmadd", "add_relu": "vaddrelu", "sub_relu": "vsubrelu",
    "and_": "vand", "or_": "vor", "not_": "vnot", "shift_left": "vshl", "shift_right": "vshr",
    "set_deq_scale": "set_deqscale",
}  # fmt: skip


def logged(call, target, source):
    """(name, type) of the row that `call(asc, dst, src)` records."""
    d, s = local("d", target, 0, 256), local("s", source, 256, 256)
    log = record(lambda asc: call(asc, d, s), DEVICE, 1, (), ()).program.instruction_log()
    (row,) = (r for r in log if r["ascendc_api"] and r["dst_tensor"])
    return row["instr"], row["dtype"]


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert TABLE[name].mnemonic == NAMES[name]


@pytest.mark.parametrize(
    ("call", "target", "source", "want"),
    [
        (lambda asc, d, s: asc.mul_cast(d, s, s, 8), "int8_t", "half", ("vmulconv_f162s8", "s8<-f16")),
        (lambda asc, d, s: asc.mul_cast(d, s, s, 8), "uint8_t", "half", ("vmulconv_f162u8", "u8<-f16")),
        (lambda asc, d, s: asc.mul_add_dst(d, s, s, 8), "float", "half", ("vmla", "f32<-f16")),
        (lambda asc, d, s: asc.axpy(d, s, 2, 8), "float", "half", ("vaxpy", "f32<-f16")),
        (lambda asc, d, s: asc.axpy(d, s, 2, 8), "half", "half", ("vaxpy", "f16")),
        (lambda asc, d, s: asc.cast(d, s, RoundMode.CAST_NONE, 8), "half", "int32_t", ("vconv_deq", "f16<-s32")),
        (lambda asc, d, s: asc.cast(d, s, RoundMode.CAST_NONE, 8), "int64_t", "int32_t", ("vconv_s322s64", "s64<-s32")),
        (lambda asc, d, s: asc.cast(d, s, RoundMode.CAST_RINT, 8), "float", "int64_t", ("vconv_s642f32r", "f32<-s64")),
        (lambda asc, d, s: asc.cast(d, s, RoundMode.CAST_FLOOR, 8), "int64_t", "float", ("vconv_f322s64f", "s64<-f32")),
    ],
)
def test_names_by_type(call, target, source, want):
    assert logged(call, target, source) == want
