"""HECRL: diffusion proposes where to go next, the values of a flat agent choose, and its policy goes there.

    agent:       π(a | s, g), V(s, g), Q(s, a, g)                                    (`gciql`, as it is)
    subgoals:    L_D = mean |ε - ε̂(w_t, t | s, g)|²,   w = s_min(k + K, k_g)  of  s = s_k, g = s_{k_g}
    acting:      w_1, ..., w_M ~ D(s, g);   w = argmax V(w_m, g)  over those with V(s, w_m) >= V_near
                 then up to n actions of π(· | s, w), and the same again

What a value says of far goals is mostly error, so the agent is asked only for what it is good at: what is
near (V_near), and which of a few places is nearer to the goal. The two parts are trained side by side on the
same rows and share nothing; any agent with a policy and a value could be in the place of `gciql`. States are
sets of entities, and so are goals, of the same kind; networks over them (`models/entities.py`) serve with one
entity more than they were trained with. How it acts is in `evaluation/subgoals.py`.

Source: Haramati et al., 2026, https://arxiv.org/abs/2602.02722, of which the abstract and summaries could be
read. Our reading: the goal itself is always among the candidates, so that the agent goes there as soon as it
is near; and where none is near, the nearest is taken.
"""

import dataclasses

import jax

from rlx.models import diffusion
from rlx.models.diffusion import Denoiser
from rlx.rollout.control.hindsight import joined
from rlx.types import Algorithm, Batch, Key, Models


def hecrl(parent: Algorithm, subgoals: Denoiser) -> Algorithm:
  """Trains what its parent trains, and `subgoals`.

  Args:
    parent: `gciql` on the rows of `hindsight`, with whole states as goals; `waypoint_steps` is K.
    subgoals: ε̂, of states given a state and a goal.
  """

  def loss(models: Models, batch: Batch, key: Key):
    agent_key, noise_key = jax.random.split(key)
    agent_loss, metrics = parent.loss(models, batch, agent_key)
    denoise = subgoals.given(models['subgoals'], joined(batch['states'], batch['policy_goals']))
    subgoal_loss = diffusion.errors(denoise, subgoals.schedule, batch['waypoints'], noise_key).mean()
    return agent_loss + subgoal_loss, {**metrics, 'loss/subgoals': subgoal_loss}

  return dataclasses.replace(parent, loss=loss)
