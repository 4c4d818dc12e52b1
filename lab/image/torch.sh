#!/bin/bash
# Runs inside a scratch copy of the cluster's root file system, as root: makes a wheel of Debian's
# PyTorch, with the libraries that it is linked with, and leaves it in /wheel. The index has PyTorch
# for Linux with CUDA alone, gigabytes of it.
set -euo pipefail

if [ ! -f /etc/tare-lab/root ]; then
  echo "torch: this is not the lab's root file system; nothing was done" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends --target-release trixie python3-torch python3-wheel

packages=/usr/lib/python3/dist-packages
version=$(cd $packages && echo torch-*.egg-info)
version=${version#torch-} version=${version%.egg-info}
tree=/build/torch
mkdir -p "$tree/torch/lib" "$tree/torch/bin"
# Without the tests and the headers of C++. What is linked to comes below, under the name that the
# loader asks for: a wheel holds no symbolic links.
tar -C $packages -c --exclude=torch/test --exclude=torch/include --exclude=torch/lib \
  --exclude=torch/bin --exclude=__pycache__ torch torchgen functorch | tar -C "$tree" -x
cp -L $packages/torch/bin/torch_shm_manager "$tree/torch/bin/"
cp -L $packages/torch/lib/libtorch_global_deps.so "$tree/torch/lib/"

# All of the closure but the C library, which has to be the loader's own.
mapfile -t modules < <(find "$tree" -name '*.so' -o -name torch_shm_manager)
ldd "${modules[@]}" | sed -n 's/^\t\S* => \(\/\S*\) .*/\1/p' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv)\.so\.' |
  xargs cp -L -t "$tree/torch/lib"
chmod 755 "$tree/torch/lib"/*
for module in "${modules[@]}"; do
  place=$(realpath --relative-to="$(dirname "$module")" "$tree/torch/lib")
  patchelf --set-rpath "\$ORIGIN/$place" "$module"
done
for library in "$tree/torch/lib"/*; do
  patchelf --set-rpath "\$ORIGIN" "$library"
done

facts=$tree/torch-$version.dist-info
mkdir "$facts"
sed '/^Requires-Dist:/d' $packages/torch-"$version".egg-info/PKG-INFO >"$facts/METADATA"
tag=cp$(/usr/bin/python3 -c 'import sys; print("%d%d" % sys.version_info[:2])')
printf '%s\n' 'Wheel-Version: 1.0' 'Generator: torch.sh' 'Root-Is-Purelib: false' \
  "Tag: $tag-$tag-linux_x86_64" >"$facts/WHEEL"
/usr/bin/python3 -m wheel pack --dest-dir /wheel "$tree"
