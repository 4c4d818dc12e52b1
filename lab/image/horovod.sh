#!/bin/bash
# Runs inside a scratch copy of the cluster's root file system, as root: builds a wheel of Horovod from
# its source, for the cluster's Open MPI and the TensorFlow of horovod.lock, and leaves it in /wheel.
# The compilers stay behind with the copy.
set -euo pipefail
here=$(dirname "$(realpath "$0")")

if [ ! -f /etc/tare-lab/root ]; then
  echo "horovod: this is not the lab's root file system; nothing was done" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends g++ cmake make python3-dev libopenmpi-dev

uv=/opt/tools/bin/uv python=/build/venv/bin/python
$uv venv -q --python /usr/bin/python3 /build/venv
$uv pip sync -q --require-hashes --python $python "$here/horovod.lock"
pip() { /opt/tools/bin/pip --disable-pip-version-check --python $python "$@"; }

# pip's own isolated builds get a setuptools without pkg_resources, which setup.py imports.
cd /build
pip download -q --no-deps --no-binary :all: --no-build-isolation --require-hashes \
  --requirement "$here/horovod-source.lock"
tar -xzf horovod-*.tar.gz --strip-components=1 --one-top-level=source
cd source
# g++ 14 refuses an assignment to a const member.
sed -i 's/const size_type count_;/size_type count_;/' \
  third_party/flatbuffers/include/flatbuffers/stl_emulation.h
# TensorFlow 2.21 no longer ships the header highwayhash/arch_specific.h.
sed -i '/xla_mpi_ops.cc/d' horovod/tensorflow/CMakeLists.txt
export CXXFLAGS="-include stdexcept -include string -include cstdint"
MAKEFLAGS=-j$(nproc)
export MAKEFLAGS
export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_CPU_OPERATIONS=MPI
pip wheel -q --no-deps --no-build-isolation --wheel-dir /wheel .
