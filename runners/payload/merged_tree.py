"""The files of an image: its layers laid one over the other.

With whiteouts, opaque folders, hard links and links to folders, as runtimes apply them.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

from .manifests import BadImage

LINKS_LIMIT = 40  # links to follow to resolve one path


class Node:
    """A name in the tree. Folders have `children`; `value` is up to the caller."""

    __slots__ = ("children", "layer", "link", "value")

    def __init__(self, layer: int, value: Any, link: Optional[str] = None) -> None:
        self.layer, self.value, self.link = layer, value, link
        self.children: Optional[Dict[str, "Node"]] = None

    @classmethod
    def make_folder(cls, layer: int, value: Any) -> "Node":
        node = cls(layer, value)
        node.children = {}
        return node


class Tree:
    """The merged layers. `default` is the value of folders that no layer mentions."""

    def __init__(self, default: Any = None) -> None:
        self.default, self.layer = default, 0
        self.root = Node.make_folder(0, default)

    def put(self, path: str, node: Node) -> None:
        """Add a file, a link (`node.link`) or a folder of the present layer."""
        parent, name = self.resolve_parent(path)
        if parent is None:
            return  # the root itself
        old = parent.get(name)
        if node.children is not None and old is not None and old.children is not None:
            old.value, old.layer = node.value, node.layer
        else:
            parent[name] = node

    def apply_whiteout(self, path: str) -> bool:
        """Hide names of lower layers if this is a whiteout; return whether it is one."""
        parent, name = self.resolve_parent(path)
        if parent is None or not name.startswith(".wh."):
            return False
        if name == ".wh..wh..opq":
            self.prune(parent)
        elif name[4:] in parent and self.is_below(parent[name[4:]]):
            del parent[name[4:]]
        return True

    def is_below(self, node: Node) -> bool:
        """Return whether a node is of lower layers alone.

        Of a folder, what lower layers put there is removed.
        """
        if node.children is not None:
            self.prune(node.children)
            return node.layer < self.layer and not node.children
        return node.layer < self.layer

    def prune(self, children: Dict[str, Node]) -> None:
        for name in [name for name, node in children.items() if self.is_below(node)]:
            del children[name]

    def find(self, path: str) -> Optional[Node]:
        """Return the node that a hard link points to."""
        parent, name = self.resolve_parent(path)
        return parent.get(name) if parent is not None else None

    def resolve_parent(self, path: str) -> Tuple[Optional[Dict[str, Node]], str]:
        """Return the names in the folder that holds a path, and its own name in there.

        Links are followed inside the tree. None for the root.
        """
        remaining = [part for part in path.split("/") if part][::-1]
        if not remaining:
            return None, ""
        trail, followed = [self.root], 0
        while len(remaining) > 1:
            part = remaining.pop()
            if part == "..":
                trail = trail[:-1] or [self.root]
                continue
            children = trail[-1].children
            assert children is not None
            node = children.get(part)
            if node is not None and node.link is not None:
                followed += 1
                if followed > LINKS_LIMIT:
                    raise BadImage("The links on the way to %r go round in circles." % path)
                if node.link.startswith("/"):
                    trail = [self.root]
                target = [part for part in node.link.split("/") if part not in ("", ".")]
                remaining += target[::-1]
                continue
            if node is None or node.children is None:
                node = Node.make_folder(self.layer, self.default)
                children[part] = node
            trail.append(node)
        assert trail[-1].children is not None
        return trail[-1].children, remaining[0]

    def walk(self) -> Iterator[Tuple[str, Node]]:
        """Yield every path below the root with its node, folders before what they hold."""
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            for name, child in sorted((node.children or {}).items(), reverse=True):
                below = path + "/" + name if path else name
                yield below, child
                if child.children is not None:
                    waiting.append((below, child))
