"""Kuhn's poker and somebody who plays it, as small as can be."""

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.worlds import tables
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig

KUHN = tables.kuhn()
MODEL = LanguageModel(TransformerConfig(
    vocab_size=KUHN.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8,
    mlp_size=32, context_length=8,
))
SPEAKER = Speaker(
    model=MODEL, scoring=Scoring(chunk_tokens=64, packing=None),
    decoding=Decoding(
        max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
        pad_id=0,
    ),
)
