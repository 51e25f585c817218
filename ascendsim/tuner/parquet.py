"""Results as Parquet (extra `parquet`). The head is in the file's metadata."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ascendsim.tuner.evaluation import Row, Setup
from ascendsim.tuner.space import value_text
from ascendsim.tuner.store import FRACTIONS, TEXTS

_KEY = b"ascendsim tune"


class ParquetTable:
    """A column for each of the results', with its type: whole numbers, fractions, flags or texts."""

    def dump(self, head: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Row], setup: Setup) -> bytes:
        """Return the file's bytes."""
        types = {name: _type(name, setup) for name in columns}
        arrays = [
            pa.array(
                [value_text(c) if types[name] == pa.string() and isinstance(c, int) else c for c in cells], types[name]
            )
            for name, cells in zip(columns, zip(*rows, strict=True) if rows else [()] * len(columns), strict=True)
        ]
        schema = pa.schema(list(types.items()), {_KEY: json.dumps(head).encode()})
        raw = io.BytesIO()
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), raw)
        return raw.getvalue()

    def load(self, path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
        """Return the head and the cells of each row."""
        raw = io.BytesIO(path.read_bytes())
        try:  # without threads: one that still begins when Python ends aborts the process
            table = pq.ParquetFile(raw, pre_buffer=False).read(use_threads=False)
        except pa.ArrowException as error:
            raise ValueError(error) from None
        head = json.loads((table.schema.metadata or {})[_KEY])
        columns = [column.to_pylist() for column in table.columns]
        return head, [table.column_names, *map(list, zip(*columns, strict=True))]


def _type(name: str, setup: Setup) -> pa.DataType:
    for field in setup.space.fields:
        if field.name == name:
            kinds = {type(value) for value in field.values}
            own = setup.scenario_value(field)
            kinds |= set() if own is None else {type(own)}
            return {frozenset({int}): pa.int64(), frozenset({bool}): pa.bool_()}.get(frozenset(kinds), pa.string())
    return pa.string() if name in TEXTS else pa.float64() if name in FRACTIONS else pa.int64()
