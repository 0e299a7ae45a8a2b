"""Every test sees eight devices, and an array never gains an axis without being told to."""

import os

# Most of the time of these tests would be LLVM optimising programs that run once.
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')

import jax

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')
