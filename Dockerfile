# rlx on CPUs:
#
#     docker build -t rlx .
#     docker run --rm -v "$PWD/runs:/work/runs" rlx --config=quickstart/arithmetic --workdir=runs/quickstart
#
# For GPUs: `docker build --build-arg EXTRA=gpu ...` installs JAX with CUDA's libraries as wheels, so that the image
# below stays as it is; the host needs NVIDIA's driver and container toolkit, and `docker run --gpus=all ...`.
FROM python:3.13-slim

# The sandbox in which rewards run programs. Inside a container it needs namespaces, which Docker's default profile
# refuses: `docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined ...` for such rewards.
RUN apt-get update -q && apt-get install -y -q --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*

ARG EXTRA=hf
COPY . /src
RUN pip install --no-cache-dir "/src[$EXTRA]" && rm -rf /src

WORKDIR /work
ENTRYPOINT ["rlx"]
