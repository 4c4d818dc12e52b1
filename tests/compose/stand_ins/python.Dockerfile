# Stands in for python:*-slim: Debian's own Python 3.13, at the path and with the commands of that image.
FROM tare-debian
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /usr/local
ENV LANG=C.UTF-8
CMD ["python3"]
