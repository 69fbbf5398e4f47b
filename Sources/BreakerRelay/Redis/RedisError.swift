internal import SharedBreaker

/// Why a Redis server did not do what it was asked.
///
/// The description is one line: what failed, why, and what to do if there is something to do.
package struct RedisError: Error, Sendable, Hashable, CustomStringConvertible {
  package var description: String

  package init(_ description: String) { self.description = description }

  /// Creates the error for an answer of the server such as `OOM command not allowed`.
  package init(answer: String) {
    let words = answer.split(separator: " ")
    // The error of a script, before version 7, and of a transaction is in words of its own.
    let inner = words.lazy.map { $0.first == "-" ? $0.dropFirst() : $0 }
    // From version 7 on, a script that may not do something gets no code of its own.
    let isForbidden = answer.hasPrefix("ERR The user executing the script can't ")
    let known = isForbidden ? "NOPERM" : inner.first { Self.meanings[$0] != nil }
    let code = known ?? words.first ?? ""
    self.init(Self.meanings[code] ?? "it answers '\(OutsideText.quoted(answer))'")
  }

  /// What the server's answers mean for a relay, by their first word.
  private static let meanings: [Substring: String] = [
    "OOM": "its memory is full: raise its maxmemory, or free some",
    "READONLY": "it is a read-only replica: give --redis the address of the primary",
    "NOAUTH": "it wants a password: use --password-file or $SHARED_BREAKER_REDIS_PASSWORD",
    "WRONGPASS": "it refuses the user or the password: check them",
    "NOPERM": "its user may not do this: the guide 'A Fleet of Hosts' says what a relay needs",
    "LOADING": "it is still loading its data",
    "MASTERDOWN": "it is a replica whose primary is away",
    "MISCONF": "it cannot save to its disk, so it refuses writes: look at its log",
    "MOVED": "it is one of a cluster, and another node has the fleet's keys: use that node",
    "CLUSTERDOWN": "its cluster is down",
    "UNBLOCKED": "it has become a replica",
    "WRONGTYPE": "something else uses the keys of this fleet: choose another name for the fleet",
    "NOSCRIPT": "it has lost the relay's scripts",
  ]

  package static let closed = RedisError("it closed the connection")

  package static func late(_ patience: Duration) -> RedisError {
    RedisError("it has not answered for \(DurationText.format(patience))")
  }

  package static func unexpected(_ what: String) -> RedisError {
    RedisError("its answer to \(what) makes no sense: is it a Redis server of version 5 or later?")
  }
}
