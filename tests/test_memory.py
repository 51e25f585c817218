"""Tensors as windows, their places in GM, and memory that knows what was written."""

import numpy as np
import pytest

from ascendsim.device import load_device
from ascendsim.dtypes import BFLOAT16, DTYPES, FLOAT, HALF, INT8, UINT8
from ascendsim.memory import GM_ALIGN_BYTES, GM_BASE_BYTES, POISON, Bytes, GlobalTensor, LocalTensor, place_in_gm
from ascendsim.terms import Buffer, TPosition

LOCAL = LocalTensor("t", TPosition.VECIN, HALF, 256, 128, que=3)


def test_an_index_moves_the_window_by_elements_and_keeps_the_rest():
    window = LOCAL[8]
    assert (window.offset_bytes, window.start_bytes, window.count) == (16, 272, 56)
    assert (window.name, window.position, window.address_bytes, window.allocation_bytes, window.que) == (
        "t", TPosition.VECIN, 256, 128, 3,
    )  # fmt: skip
    assert window[4][-12] == LOCAL
    assert LOCAL.count == 64


def test_a_reinterpreted_window_counts_in_the_new_type():
    as_float = LOCAL[8].reinterpret_cast(FLOAT)
    assert (as_float.dtype, as_float.start_bytes, as_float.count) == (FLOAT, 272, 28)
    assert as_float[1].start_bytes == 276
    assert LOCAL[1].reinterpret_cast(FLOAT).count == 31  # a tail shorter than an element is left out
    assert LOCAL.reinterpret_cast(INT8).count == 128


def test_a_window_can_end_sooner():
    assert [LOCAL[i].with_size(20).count for i in (0, 4)] == [20, 20]
    assert LOCAL[4].with_size(20).start_bytes == LOCAL[4].start_bytes
    assert LOCAL.with_size(20)[4].count == 16


@pytest.mark.parametrize("position", [TPosition.VECIN, TPosition.VECCALC, TPosition.VECOUT])
def test_vector_positions_lie_in_ub(position):
    assert load_device("Ascend910B1").buffer_of(position) is Buffer.UB


def test_windows_are_values():
    assert LocalTensor("t", TPosition.VECIN, HALF, 256, 128, que=3) == LOCAL
    assert hash(LOCAL[2]) == hash(LOCAL[1][1])
    assert LOCAL[1] != LOCAL


def test_gm_tensors_start_on_512_bytes_in_order():
    a, b, c, d = place_in_gm([("a", HALF, (3, 5)), ("b", FLOAT, (128,)), ("c", UINT8, (513,)), ("d", FLOAT, (1,))])
    assert [t.base_bytes - GM_BASE_BYTES for t in (a, b, c, d)] == [0, 512, 1024, 2048]
    assert GM_BASE_BYTES % GM_ALIGN_BYTES == 0
    assert [t.index for t in (a, b, c, d)] == [0, 1, 2, 3]
    assert [t.tensor_bytes for t in (a, b, c, d)] == [30, 512, 513, 4]
    assert (a.name, a.dtype, a.shape) == ("a", HALF, (3, 5))


def test_a_gm_window_counts_to_the_end_of_its_tensor():
    (t,) = place_in_gm([("t", FLOAT, (4, 8))])
    assert t[10] == GlobalTensor("t", FLOAT, (4, 8), 0, t.base_bytes, 40)
    assert (t[10].count, t[10].address_bytes, t[10].tensor_bytes) == (22, t.base_bytes + 40, 128)


def test_shapes_beyond_32_bits_of_bytes_are_counted():
    a, b = place_in_gm([("a", FLOAT, (65536, 65536)), ("b", HALF, ())])
    assert a.tensor_bytes == 2**34
    assert b.base_bytes == a.base_bytes + 2**34
    assert b.tensor_bytes == 2  # a scalar has one element


def test_fresh_memory_is_poison():
    memory = Bytes(40)
    assert POISON == 0xFF
    assert memory.content.tolist() == [0xFF] * 40
    assert not memory.written.any()


@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_memory_of_an_array_holds_a_copy_all_written(kind):
    array = np.arange(6).astype(kind.numpy).reshape(2, 3)
    memory = Bytes.of(array[:, ::-1])
    assert memory.written.all()
    assert memory.typed(kind).tolist() == [2, 1, 0, 5, 4, 3]
    array[:] = 0
    assert memory.typed(kind).tolist() == [2, 1, 0, 5, 4, 3]


def test_a_typed_view_is_the_memory_itself():
    memory = Bytes(10)
    view = memory.typed(FLOAT)
    assert view.size == 2  # the last two bytes are no whole float
    view[1] = 1.0
    assert memory.content[4:8].tolist() == [0, 0, 0x80, 0x3F]
    assert memory.typed(FLOAT) is view
    assert memory.typed(BFLOAT16)[3] == 1.0
    assert memory.typed(UINT8).size == 10
