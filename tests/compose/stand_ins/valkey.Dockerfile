# Stands in for valkey/valkey:8*: Debian's own Valkey 8, with the user of that image.
FROM tare-debian
RUN groupadd --gid 999 valkey \
 && useradd --uid 999 --gid 999 --no-create-home --shell /usr/sbin/nologin valkey \
 && apt-get update \
 && apt-get install -y --no-install-recommends valkey-server valkey-tools \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o valkey -g valkey /data
VOLUME ["/data"]
WORKDIR /data
EXPOSE 6379
CMD ["valkey-server"]
