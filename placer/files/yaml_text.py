"""YAML that people write, read as strictly as JSON: no key twice, no aliases without end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

MOST_NODES = 1_000_000
"""Most values of a document with its aliases written out; a list of 1,000 nodes of Kubernetes has
half as many.
"""


def parse_yaml(data: bytes | str) -> Any:
    """Read the first document of YAML; ValueError says where it is none, which key stands twice, or
    that its aliases grow without end.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses what the safe loader reads in silence."""

    def mapping(loader: yaml.SafeLoader, node: MappingNode) -> dict[Any, Any]:
        keys = Counter(str(key.value) for key, _ in node.value)
        if twice := next((key for key, count in keys.items() if count > 1 and key != "<<"), None):
            raise ValueError(f"the key '{twice[:40]}' appears twice")
        loader.flatten_mapping(node)
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    loader = Loader(data)
    try:
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return None
        for count, _ in enumerate(_nodes(node)):
            if count > MOST_NODES:
                raise ValueError(f"it has more than {MOST_NODES:,} values")
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    finally:
        loader.dispose()


def _nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, those behind an alias each time."""
    rest = [node]
    while rest:
        one = rest.pop()
        yield one
        if isinstance(one.value, list):
            for inner in one.value:
                rest.extend(inner if isinstance(inner, tuple) else (inner,))
