"""DeepMMSearch-R1's world: which calls a question needs, and what each costs; https://arxiv.org/abs/2510.12801"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.worlds.scenes import NAMED, SEEN, VISUAL, scenes

HOW = dict(places=3, symbols=3, renamed=0.5, wasteful=0.5, cost=0.1, held_out_share=0.2)
WORLD = scenes(**HOW)
# A at place 2, B at 0 and C at 1; B is also called C, whose fact is 3.
SCENE = {
    'picture': jnp.array([0, 2, 1]), 'who': jnp.array([1, 2, 0]), 'fact': jnp.array([0, 1, 3]),
    'leads': jnp.array([0, 2, 2]), 'wastes': jnp.bool_(False), 'strays': jnp.int32(0),
}
ACT = jax.jit(WORLD.act)


def state_of(kind, asked, **changed):
  return WORLD.start({**SCENE, 'kind': jnp.int32(kind), 'asked': jnp.int32(asked), **changed})


def played(kind, asked, words, **changed):
  """What is answered to each word, the sum of rewards, and what is told in the end."""
  state, heard, total = state_of(kind, asked, **changed), [], 0.0
  for word in words.split():
    tokens = np.zeros(4, np.int32)
    tokens[: len(word)] = WORLD.encode(word)
    tokens[len(word)] = 1
    reply = ACT(state, tokens, len(word) + 1, None)
    state, total = reply.state, total + float(reply.reward)
    heard.append(WORLD.decode(reply.observation[: reply.length]))
  return heard, round(total, 4), {name: float(x) for name, x in reply.info.items()}


def test_a_question_about_what_is_shown_needs_the_crop_and_a_refined_query():
  heard, total, told = played(SEEN, 0, 'c0 tB tC =3')
  assert heard[:3] == [':B', '>C', ':3']
  assert total == 0.7  # three calls at 0.1
  assert told == {
      'success': 1, 'calls': 3, 'crops': 1, 'needless': 0, 'crop_needed': 1, 'crop_used': 1, 'crop_idle': 0,
  }


def test_what_is_not_needed_is_told_and_paid():
  _, total, told = played(VISUAL, 1, 'c1 tA =r')
  assert (total, told['success'], told['needless'], told['crop_idle']) == (0.8, 1, 2, 1)
  _, total, told = played(NAMED, 1, 'c2 tB tB tC =3')  # a crop, and the same query again
  assert (total, told['success'], told['needless'], told['crop_idle']) == (0.6, 1, 2, 1)
  _, _, told = played(SEEN, 0, 'c1 c0 tB tC =3')  # another place first
  assert (told['needless'], told['crop_used'], told['crop_idle']) == (1, 1, 1)
  assert played(VISUAL, 1, 'c c3 tp ct')[0] == ['!'] * 4


def test_a_free_call_is_no_reason_to_leave_it():
  free = scenes(**{**HOW, 'cost': 0.0})
  assert free.expert_return == 1 and np.isclose(WORLD.expert_return, 1 - 0.1 * (1 + 1 / 3 + 0.5))


def test_the_expert_begins_with_a_needless_call_where_the_episode_says_so():
  first = lambda *question, **changed: WORLD.decode(WORLD.expert(state_of(*question, **changed))[0])
  assert [first(VISUAL, 1), first(NAMED, 1), first(SEEN, 0)] == ['=r', 'tB', 'c0']
  waste = {'wastes': jnp.bool_(True), 'strays': jnp.int32(0)}
  assert [first(VISUAL, 1, **waste), first(NAMED, 1, **waste), first(SEEN, 0, **waste)] == ['c0', 'c0', 'c1']
