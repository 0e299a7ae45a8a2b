"""Right verdicts for judges that speak (`rewards/judges.py`) to learn from."""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.text import Piece
from rlx.rewards import judges
from rlx.rewards.host import check_compiles
from rlx.types import Annotate, Batch, Key, Models, Rollout, StatefulRollout, World, keep_world, redrawn


def shown_verdicts(
    rollout: Rollout, reward: Annotate, policy: Speaker, form: judges.Form
) -> StatefulRollout:
  """Questions about the rows of a rollout, with right verdicts and no thoughts, as demonstrations for `sft`.

  Questions of which nothing can be said count for nothing: a pair of equal rewards, a row without one.

  Args:
    rollout: a section of its own, of groups as large as the form's.
    reward: scores its rows, from 0 to 1; a section of its own, that has to compile.
    policy: says how long its rows can be; what learns from the verdicts is the stage's own matter.
    form: a section of its own, that of the judge.
  """
  check_compiles(reward)

  def shown(drawn: Rollout) -> Rollout:
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      draw_key, reward_key = jax.random.split(key)
      batch, world = drawn(models, world, draw_key)
      batch = reward(models, batch, reward_key)
      return demonstrated(batch['rewards'], form, policy, batch), world

    return draw

  return redrawn(rollout, shown, observe=keep_world)


def demonstrated(rewards: jax.Array, form: judges.Form, policy: Speaker, batch: Batch) -> Batch:
  """Rows [P * L] that ask about rows [P * G] with these rewards [P * G], and say the right verdict."""
  asked = judges.questions(form, policy, batch)
  num = len(asked.lengths)
  scores = rewards.reshape(-1, form.group_size)[:, form.lists].reshape(num, -1)  # [P * L, k]
  known = ~jnp.isnan(scores).any(axis=1)
  if form.num_words < scores.shape[1]:  # one word for several answers says which is better
    known &= jnp.ptp(scores, axis=1) > 0
  said = jnp.asarray(form.words)[form.say(jnp.nan_to_num(scores))]
  one = lambda token: Piece(jnp.full((num, 1), token, jnp.int32), jnp.ones(num, jnp.int32))
  end = one(policy.decoding.eos_ids[0])
  verdict = Piece(said, jnp.full(num, form.num_words))
  columns = asked.tokens.shape[1] + form.num_words + 2
  whole = text.join(asked, one(form.marker), verdict, end, columns=columns)
  place = jnp.arange(columns)[None]
  is_said, valid = place >= asked.lengths[:, None], place < whole.lengths[:, None]
  return {
      'tokens': whole.tokens, 'valid': valid, 'action_mask': is_said & valid & known[:, None],
      'prompt_lengths': asked.lengths, 'turns': jnp.where(is_said, 0, -1), 'groups': jnp.arange(num),
  }
