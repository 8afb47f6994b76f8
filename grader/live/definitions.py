"""What a cell's code defines at the top level, and what those definitions build on. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

CODE_BY_TEXT = {"exec", "eval", "globals", "locals", "vars", "setattr"}
MAGICS = {"run_line_magic", "run_cell_magic"}
KNOWN_MAGICS = {"check", "load_ext", "matplotlib", "time", "timeit", "pip", "config"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Definition:
    """What one cell makes of one name.

    `code` is the same for two definitions that do the same: comments, layout and docstrings do not
    count. `needs` are the names it reads as it runs, `calls_on` those it reads only when it is
    called.
    """

    name: str
    code: str
    needs: frozenset[str]
    calls_on: frozenset[str]


@dataclass(frozen=True)
class CellCode:
    """The definitions of one cell. An `opaque` one may define any name (`exec`, `import *`)."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    opaque: bool = False


@lru_cache(maxsize=4_096)
def definitions_of(source: str) -> CellCode:
    """Read a cell's Python (magics already turned into calls); broken code defines nothing."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CellCode()
    parts: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for name in dict.fromkeys(_bound(statement)):
            parts.setdefault(name, []).append(statement)
    definitions = {name: _definition(name, found) for name, found in parts.items()}
    return CellCode(definitions, any(map(_is_opaque, body)))


def _definition(name: str, statements: list[ast.stmt]) -> Definition:
    needs, calls_on = set(), set()
    for statement in statements:
        needs |= set(_read_now(statement))
        calls_on |= set(_read_later(statement))
    own = {name}
    code = "\n".join(ast.dump(_without_docstring(statement)) for statement in statements)
    return Definition(name, code, frozenset(needs - own), frozenset(calls_on - own))


def _without_docstring(statement: ast.stmt) -> ast.stmt:
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement
    if ast.get_docstring(statement, clean=False) is None:
        return statement
    bare = type(statement)(**dict(ast.iter_fields(statement)))
    bare.body = statement.body[1:]
    return bare


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of the top level binds, or changes a part of."""
    for node in _here(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((a.asname or a.name).partition(".")[0] for a in aliases)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                base: ast.expr = node
                while isinstance(base, ast.Subscript | ast.Attribute):
                    base = base.value
                if isinstance(base, ast.Name):
                    yield base.id


def _here(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below that run in the scope of the top level, the node itself first."""
    yield node
    if isinstance(node, SCOPES):
        for part in _run_at_once(node):
            yield from _here(part)
        return
    if isinstance(node, COMPREHENSIONS):  # its targets are its own; a walrus in it is not
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                yield inner.target
        return
    for part in ast.iter_child_nodes(node):
        yield from _here(part)


def _run_at_once(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what a definition evaluates when it is made: decorators, defaults, base classes."""
    yield from getattr(scope, "decorator_list", [])
    yield from getattr(scope, "bases", [])
    arguments = getattr(scope, "args", None)
    if isinstance(arguments, ast.arguments):
        yield from arguments.defaults
        yield from (default for default in arguments.kw_defaults if default is not None)


def _read_now(statement: ast.stmt) -> Iterator[str]:
    for node in _here(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        if isinstance(node, COMPREHENSIONS):
            yield from _free(node)
        if isinstance(node, ast.ClassDef):  # its body runs at once, its methods do not
            for part in node.body:
                yield from _read_now(part)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _read_later(statement: ast.stmt) -> Iterator[str]:
    for node in _here(statement):
        if isinstance(node, SCOPES):
            yield from _free(node)


def _free(scope: ast.AST) -> set[str]:
    """Return the names that a function reads and does not make itself, near enough."""
    read, made = set(), set()
    for node in ast.walk(scope):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                made.add(name)
            case ast.arg(arg=name):
                made.add(name)
    shared = {n for g in ast.walk(scope) if isinstance(g, ast.Global) for n in g.names}
    return (read - made) | shared


def _is_opaque(statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                return True
            case ast.Call(func=ast.Name(id=name)) if name in CODE_BY_TEXT:
                return True
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value=magic), *_]) if (
                attr in MAGICS and magic not in KNOWN_MAGICS
            ):
                return True
    return False
