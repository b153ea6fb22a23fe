"""`max_splits`: the largest regions that primitives allow, and the pieces that a few cuts make."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from collage_dsl.graph import Composite, Graph, Kind, OpSet, SubGraph, members, opset, union_of
from collage_dsl.graph.variants import Variants, common
from collage_dsl.rules.bound import Bound, BoundReachedError
from collage_dsl.rules.combine import is_possible
from collage_dsl.rules.primitive import Primitive, has_side_branches


def split(
    graph: Graph,
    seeds: Iterable[SubGraph],
    using: tuple[Primitive, ...],
    *,
    max_depth: int | None,
    max_nodes: int | None,
    max_splits: int,
    bound: Bound,
) -> Iterator[SubGraph]:
    """The pieces that `CombineByPrimitives` defines, the seeds first; each once."""
    proposed = tuple(dict.fromkeys(seeds))
    yield from proposed
    seen = set(proposed)
    grower = _Grower(graph, using, max_depth, max_nodes)
    for region in grower.regions(_disjoint(graph, proposed)):
        for piece in _Cuts(graph, region.parts, bound).pieces(max_splits):
            if piece not in seen:
                seen.add(piece)
                yield piece


def _disjoint(graph: Graph, found: Iterable[SubGraph]) -> list[SubGraph]:
    """Disjoint ones in graph order. Those with more operators, then earlier ones, come first."""
    ordered = sorted(found, key=lambda each: each.order)
    ordered.sort(key=lambda each: -(each.inside & graph.calls).bit_count())
    taken: OpSet = 0
    chosen = []
    for each in ordered:
        if not each.inside & taken and is_possible(graph, each.inside, None, None):
            chosen.append(each)
            taken |= each.inside
    return sorted(chosen, key=lambda each: each.order)


class _Region:
    """Disjoint parts, and their union `sub_graph`."""

    def __init__(self, graph: Graph, parts: tuple[SubGraph, ...], sub_graph: SubGraph) -> None:
        self.graph = graph
        self.parts = parts
        self.sub_graph = sub_graph
        self.kind: Kind = graph.kind(self.sub_graph.inside)

    @property
    def inside(self) -> OpSet:
        return self.sub_graph.inside

    @property
    def inputs(self) -> OpSet:
        return self.graph.input(self.inside) & self.graph.computed

    @property
    def outputs(self) -> OpSet:
        return self.graph.output(self.inside)

    @property
    def has_side_branches(self) -> bool:
        return has_side_branches(self.graph, self.inside, self.graph.exit(self.inside))


def _union(parts: Iterable[SubGraph]) -> SubGraph:
    inside = constants = 0
    composites: list[Composite] = []
    variants: Variants = None
    for part in parts:
        inside |= part.inside
        constants |= part.constants
        composites += part.composites
        variants = common(variants, part.variants)
    composites.sort(key=attrgetter("last"))
    return SubGraph(inside, constants, tuple(composites), variants)


class _Grower:
    """Merges touching parts as long as primitives and bounds allow."""

    def __init__(
        self,
        graph: Graph,
        using: tuple[Primitive, ...],
        max_depth: int | None,
        max_nodes: int | None,
    ) -> None:
        self.graph = graph
        self.using = using
        self.max_depth = max_depth
        self.max_nodes = max_nodes

    def regions(self, seeds: list[SubGraph]) -> list["_Region"]:
        """Merge greedily in graph order, until nothing more can be merged."""
        regions = [_Region(self.graph, (seed,), seed) for seed in seeds]
        has_changed = True
        while has_changed:
            has_changed, place = False, 0
            while place < len(regions):
                if larger := self.larger(regions, place):
                    regions, place, has_changed = larger, max(place - 1, 0), True
                else:
                    place += 1
        return regions

    def larger(self, regions: list["_Region"], place: int) -> list["_Region"] | None:
        """
        The regions after that at `place` took in another region, a tuple or a projection; None
        if it cannot grow.
        """
        region = regions[place]
        taken = union_of(each.inside for each in regions)
        for primitive in self.using:
            for addition in primitive.grows(self.graph, region):
                if not addition.inside & taken and self.is_possible(region, addition.inside):
                    parts = self.with_addition(region, addition)
                    grown = _Region(self.graph, parts, region.sub_graph | addition)
                    return [*regions[:place], grown, *regions[place + 1 :]]
        beside = self.graph.input(region.inside) | self.graph.output(region.inside)
        for other in regions:
            if other.inside & beside and self.joins(region, other):
                parts = (*region.parts, *other.parts)
                merged = _Region(self.graph, parts, region.sub_graph | other.sub_graph)
                rest = [each for each in regions if each is not other]
                return [merged if each is region else each for each in rest]
        return None

    def with_addition(self, region: "_Region", addition: SubGraph) -> tuple[SubGraph, ...]:
        """The parts, with the tuple or projection `addition` put into a part that it touches."""
        for place, part in enumerate(region.parts):
            beside = self.graph.input(part.inside) | self.graph.output(part.inside)
            if addition.inside & beside:
                return (*region.parts[:place], part | addition, *region.parts[place + 1 :])
        raise AssertionError("a primitive grows by what touches")

    def joins(self, one: "_Region", other: "_Region") -> bool:
        pairs = [
            (up, down)
            for up, down in ((one, other), (other, one))
            if self.graph.output(up.inside) & down.inside
        ]
        if not (one.sub_graph | other.sub_graph).has_variant:
            return False
        allowed = (p.joins(self.graph, up, down) for up, down in pairs for p in self.using)
        return any(allowed) and self.is_possible(one, other.inside)

    def is_possible(self, region: "_Region", addition: OpSet) -> bool:
        return is_possible(self.graph, region.inside | addition, self.max_depth, self.max_nodes)


class _Cuts:
    """Cuts between the parts of a region. A set of parts is an `OpSet` of their places."""

    def __init__(self, graph: Graph, parts: tuple[SubGraph, ...], bound: Bound) -> None:
        self.graph = graph
        self.parts = parts
        self.bound = bound
        self.place_of = {i: place for place, part in enumerate(parts) for i in members(part.inside)}
        self.below = [self._places(graph.downstream(part.inside) | part.inside) for part in parts]
        self.above = _inverse(self.below)
        self.beside = [
            self._places(graph.input(part.inside) | graph.output(part.inside)) for part in parts
        ]

    def _places(self, nodes: OpSet) -> OpSet:
        known = (self.place_of.get(index) for index in members(nodes))
        return opset(place for place in known if place is not None)

    def pieces(self, cuts: int) -> Iterator[SubGraph]:
        """The region, and the pieces that at most this number of cuts make of it."""
        pieces = {(1 << len(self.parts)) - 1}
        is_complete = self._add_pieces(pieces, cuts)
        for piece in sorted(pieces):
            yield _union(self.parts[place] for place in members(piece))
        if not is_complete:
            raise BoundReachedError

    def _add_pieces(self, pieces: set[OpSet], cuts: int) -> bool:
        """Add what at most this number of cuts makes of `pieces`; false if the bound ends this."""
        last = list(pieces)
        try:
            for _ in range(cuts):
                new = []
                for piece in (found for one in last for found in self._cut(one)):
                    if piece not in pieces:
                        pieces.add(piece)
                        new.append(piece)
                last = new
        except BoundReachedError:
            return False
        return True

    def _cut(self, piece: OpSet) -> Iterator[OpSet]:
        """The connected pieces that one cut makes of `piece`, for all possible cuts."""
        sides: dict[OpSet, None] = {}
        for place in members(piece):
            for side in (self.above[place] & piece, self.below[place] & piece):
                sides |= {side: None, piece & ~side: None}
        for side in sides:
            yield from self._connected(side)

    def _connected(self, places: OpSet) -> Iterator[OpSet]:
        while places:
            one = self._touching(places & -places, places)
            yield one
            places &= ~one

    def _touching(self, start: OpSet, among: OpSet) -> OpSet:
        """The connected part of `among` that contains `start`."""
        reached, pending = 0, start
        while pending:
            reached |= pending
            new = 0
            for place in members(pending):
                new |= self.beside[place]
            pending = new & among & ~reached
        self.bound.spend(reached.bit_count() // 2)
        return reached


def _inverse(relation: Sequence[OpSet]) -> list[OpSet]:
    inverse = [0] * len(relation)
    for one, others in enumerate(relation):
        for other in members(others):
            inverse[other] |= 1 << one
    return inverse
