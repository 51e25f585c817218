"""IterateBatch of the matmul library: the same product for every head of a span, on one AIC.

    L1     A of all heads, then B of all heads: a load of each for all heads of a batch, cut at the blocks of C
    L0     head by head, block by block as one product; heads that share a C are added up in L0C

The host makes sure that L1 holds both operands of all heads at once, so that is how they are loaded here; the library's
own order is not published. Where L1 holds them twice the next product is loaded beside the current one.
How the library sums over the query heads of a key head is not published either. Here they are added in L0C, in float
and in the order of the heads, so dV is rounded once.
Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn and bngs1s2_b; inferred as said.
"""

from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.fag_whole_heads import BatchProduct, Piece, Strides
from ascendsim.op_host.matmul import MOST_PITCH, Block, MatmulTiling
from ascendsim.op_kernel.matmul import Queues, Work, add_steps, place_of_block, start_block, store_block
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, TPosition
from ascendsim.tpipe import TPipe


def init_batch_queues(asc: AiCore, pipe: TPipe, t: MatmulTiling, l1_bytes: int, l1_num: int) -> Queues:
    """Return the queues of products whose operands share a buffer of L1.

    Args:
        asc: the core.
        pipe: whose memory they take.
        t: of one of the products; its buffers of L0 hold any of them.
        l1_bytes: both operands of all heads.
        l1_num: buffers of so many bytes.
    """
    l1 = asc.t_que(TPosition.A1, l1_num, "l1")
    queues = Queues(
        a1=l1,
        b1=l1,
        a2=asc.t_que(TPosition.A2, 1, "a2"),
        b2=asc.t_que(TPosition.B2, 1, "b2"),
        co1=asc.t_que(TPosition.CO1, 1, "co1"),
        c1=None,
        c2=None,
    )
    pipe.init_buffer(l1, l1_num, l1_bytes)
    pipe.init_buffer(queues.a2, t.a2_num, t.a2_bytes)
    pipe.init_buffer(queues.b2, t.b2_num, t.b2_bytes)
    pipe.init_buffer(queues.co1, t.co1_num, t.co1_bytes)
    return queues


def iterate_batch(
    asc: AiCore,
    gm: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
    lies: tuple[Strides, Strides, Strides],
    queues: Queues,
    product: BatchProduct,
    *,
    adds: bool,
) -> None:
    """Make C = A B of every head, or add it to what C holds.

    Args:
        asc: the core.
        gm: A, B and C of the first head.
        lies: how those of the others follow.
        queues: from `init_batch_queues`.
        product: the product.
        adds: C is added to.
    """
    (a, b, c), (a_lies, b_lies, c_lies) = gm, lies
    l1 = queues.a1.alloc_tensor(product.matmul.ab)
    _load(asc, a, b, l1, (a_lies, b_lies), queues, product)
    l1 = queues.a1.deque(product.matmul.ab)
    for number in range(c_lies.count):
        _multiply(asc, c[c_lies.at(number)], l1, (a_lies.count, b_lies.count), number, queues, product, adds)
    queues.a1.free_tensor(l1)


def _behind_a(product: BatchProduct, heads: int) -> int:
    """Return where in L1 all B begin [elements]."""
    return sum(one.elements for one in product.a_pieces(heads)) * heads


@tile
def _load(
    asc: AiCore,
    a: GlobalTensor,
    b: GlobalTensor,
    l1: LocalTensor,
    lies: tuple[Strides, Strides],
    queues: Queues,
    product: BatchProduct,
) -> None:
    """Load A and B of all heads."""
    with asc.trace("load"):
        for piece in product.a_pieces(lies[0].count):
            _load_piece(asc, l1[piece.at], a, lies[0], piece)
        for piece in product.b_pieces(lies[1].count):
            _load_piece(asc, l1[_behind_a(product, lies[0].count) + piece.at], b, lies[1], piece)
        queues.a1.enque(l1)


@tile
def _multiply(
    asc: AiCore,
    c: GlobalTensor,
    l1: LocalTensor,
    counts: tuple[int, int],
    number: int,
    queues: Queues,
    product: BatchProduct,
    adds: bool,
) -> None:
    """Make the C of this number from heads that are in L1, so many A and B in all."""
    t, behind_a = product.matmul, _behind_a(product, counts[0])
    heads = range(number * product.c_sum, (number + 1) * product.c_sum)
    for a_piece in product.a_pieces(counts[0]):
        for b_piece in product.b_pieces(counts[1]):
            m, n = _length(a_piece, t.a_transposed), _length(b_piece, not t.b_transposed)
            for head in heads:
                a1 = l1[a_piece.at + head * a_piece.elements]
                b1 = l1[behind_a + b_piece.at + head // product.b_share * b_piece.elements]
                work = Work(m, n, t.k, t.k, 0, head == heads[0], head == heads[-1], with_bias=False)
                if work.is_first:
                    c1 = start_block(asc, a1, b1, queues, work, t)
                add_steps(asc, c1, a1, b1, queues, work, t)
            queues.co1.enque(c1)
            at_m, at_n = a_piece.from_row + a_piece.from_column, b_piece.from_row + b_piece.from_column
            block = Block(at_m, at_n, 0, m, n, t.k)
            store_block(asc, c[place_of_block(block, t)], queues, m, n, adds, t)


def _length(piece: Piece, is_along_columns: bool) -> int:
    """Return how far a piece goes along m or n."""
    return piece.columns if is_along_columns else piece.rows


def _load_piece(asc: AiCore, dst: LocalTensor, src: GlobalTensor, lies: Strides, piece: Piece) -> None:
    """Load a piece of every matrix: all of a batch at once, as far as ND2NZ can step from one to the next.

    Rows that lie farther apart than it can step come one by one.
    """
    at = piece.from_row * lies.pitch + piece.from_column
    shape = piece.rows, piece.columns
    if lies.pitch > MOST_PITCH:
        for number in range(lies.count):
            for row in range(piece.rows):
                to, begin = number * piece.elements + row * CUBE_SIDE, lies.at(number) + at + row * lies.pitch
                asc.data_copy(
                    dst[to], src[begin], Nd2NzParams(1, 1, piece.columns, 0, piece.columns, piece.height, 1, 0)
                )
        return
    if lies.n_step <= MOST_PITCH and piece.elements <= MOST_PITCH:
        for batch in range(lies.batches):
            to = batch * lies.heads * piece.elements
            step = (lies.n_step, piece.elements) if lies.heads > 1 else (0, 0)
            params = Nd2NzParams(lies.heads, *shape, step[0], lies.pitch, piece.height, 1, step[1])
            asc.data_copy(dst[to], src[batch * lies.b_step + at], params)
        return
    for number in range(lies.count):
        params = Nd2NzParams(1, *shape, 0, lies.pitch, piece.height, 1, 0)
        asc.data_copy(dst[number * piece.elements], src[lies.at(number) + at], params)
