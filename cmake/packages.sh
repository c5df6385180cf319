# shellcheck shell=bash
# Sourced by ./dtrain, tests/run and .ci/run: installs packages that packages.txt lists and that are missing.

packages_file=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/packages.txt

# Prints the entries of the named groups that are not installed; optional ones begin with ?.
missing_packages() {
  local wanted=" $* " group names name
  local -A installed=()
  while read -r name; do installed[$name]=1; done \
    < <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
  while read -r group names; do
    [[ $group == \#* || $wanted != *" ${group%\?} "* ]] && continue
    for name in ${names//|/ }; do [[ -n ${installed[$name]:-} ]] && continue 2; done
    [[ $group == *\? ]] && names="?$names"
    printf '%s\n' "$names"
  done < "$packages_file"
}

# Prints the first of `a|b|c` that apt can install.
offered_package() {
  local name
  for name in ${1//|/ }; do
    if apt-cache show "$name" >/dev/null 2>&1; then printf '%s\n' "$name"; return; fi
  done
  return 1
}

# install_packages LOG GROUP...: 0 when everything that is needed is there, else 3 with the reason on stderr.
install_packages() {
  local log=$1 entry name as_root=()
  shift
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    printf 'no apt here: taking the libraries as they are\n' >&2
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0

  if ((EUID != 0)); then
    local needed=()
    for entry in "${missing[@]}"; do [[ $entry == \?* ]] || needed+=("${entry%%|*}"); done
    ((${#needed[@]})) || return 0
    if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      printf 'error: these packages are missing, and installing them takes root: %s\n' "${needed[*]}" >&2
      printf '  -> as root, run: apt-get update && apt-get install -y %s\n' "${needed[*]}" >&2
      return 3
    fi
    as_root=(sudo)
  fi

  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update >>"$log" 2>&1 || printf 'warning: the package lists could not be renewed; going on\n' >&2
  local install=()
  for entry in "${missing[@]}"; do
    if name=$(offered_package "${entry#\?}"); then
      install+=("$name")
    elif [[ $entry == \?* ]]; then
      printf 'note: %s is not offered here; going on without it\n' "${entry#\?}" >&2
    else
      printf 'error: no package %s is offered here\n' "${entry//|/ or }" >&2
      printf '  -> enable the main (Debian) or universe (Ubuntu) archive, or install that library by hand\n' >&2
      return 3
    fi
  done
  ((${#install[@]})) || return 0
  printf 'installing: %s\n' "${install[*]}" >&2
  if ! "${apt[@]}" install -y --no-install-recommends "${install[@]}" >>"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    printf 'error: apt-get could not install these packages; its output is in %s\n' "$log" >&2
    printf '  -> as root, run: apt-get install -y %s\n' "${install[*]}" >&2
    return 3
  fi
}
