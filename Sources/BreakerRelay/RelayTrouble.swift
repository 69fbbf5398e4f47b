package import SharedBreaker

/// Why a relay cannot go on as it is; it begins again, unless it has only just started.
package enum RelayTrouble: Error, Sendable, Hashable {
  /// The store cannot be used.
  case store(StoreError)

  /// The store at this path belongs to this fleet, which is not the one that the relay is for.
  case otherFleet(String, String)

  /// The store at this path is another one than it was.
  case replaced(String)

  /// The server cannot be used.
  case redis(RedisError)

  /// The host has missed messages, so it has to read everything again.
  case behind(String)

  /// Another relay works under the name of this host.
  case nameTaken(String)

  /// Something that the process itself needs.
  case system(String)
}

extension RelayTrouble {
  /// What the trouble means, and what to do, in one line.
  package func words(for options: RelayOptions) -> String {
    switch self {
    case .store(let error): error.description
    case .otherFleet(let path, let fleet):
      "the store \(path) belongs to fleet \(fleet): use that one, or run"
        + " 'cbctl fleet leave' first"
    case .replaced(let path): "the store \(path) is another one now: beginning again with it"
    case .redis(let error): "cannot use \(options.address): \(error)"
    case .behind(let why): "catching up with fleet \(options.fleet): \(why)"
    case .nameTaken(let host):
      "another cbrelay works as host \(host) of fleet \(options.fleet): give one of the two hosts"
        + " another name with --host or $SHARED_BREAKER_HOST"
    case .system(let words): words
    }
  }
}
