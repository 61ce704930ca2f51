"""Array types with shapes for the signatures of this package.

jaxtyping is a development dependency: where it is installed (our tests), shapes are checked at
run time; elsewhere the annotations are documentation. Axes: B sentences, T tokens, N words,
C characters, D width of a layer, P half of it (one direction), L layers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from jaxtyping import Shaped as Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped
    except ImportError:

        class _Documented:
            def __class_getitem__(cls, item: tuple[type, str]) -> Any:
                return item[0]

        Bool = Float = Int = Shaped = _Documented
