"""Lab x3: attention whose cache holds one latent and one rotary key a token, in both its forms."""

from milestones.spec import Milestone
from milestones.understanding import understanding_names
from milestones.x3_latent_attention.calls import calls
from milestones.x3_latent_attention.checks import CHECKS

MILESTONE = Milestone(
    slug="x3_latent_attention",
    title="Latent attention",
    functions=(
        "kv_values_per_token",
        "rope",
        "attention_unabsorbed",
        "full_logits",
        "new_latent_cache",
        "extend_cache",
        "absorbed_attention",
        "decode_step",
        "score_matrix",
        "multiplications",
        *understanding_names("x3_latent_attention"),
    ),
    calls=calls,
    checks=CHECKS,
)
