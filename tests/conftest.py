"""Every test sees eight devices, and an array never gains an axis without being told to."""

import jax

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')
