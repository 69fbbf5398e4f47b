/// The keys of a fleet on the server.
///
/// Their common tag, in braces, puts all of them on one node of a cluster.
package struct FleetKeys: Sendable, Hashable {
  private let prefix: String

  package init(fleet: String) { prefix = "sb:{\(fleet)}:" }

  /// What stands for all of them in the rights of a server's user.
  package var pattern: String { prefix + "*" }

  /// What has happened lately, one entry a message.
  package var stream: String { prefix + "stream" }

  /// The number of the latest message.
  package var count: String { prefix + "count" }

  /// A random text that is lost with the data of the server.
  package var epoch: String { prefix + "epoch" }

  /// The latest command about each aspect of each breaker.
  package var commands: String { prefix + "commands" }

  /// Which hosts have which breakers open.
  package var evidence: String { prefix + "evidence" }

  /// When each host was last seen, in milliseconds of the server's clock.
  package var hosts: String { prefix + "hosts" }

  /// What a host says about itself, under an empty field, and about its breakers, by their names.
  package func host(_ name: String) -> String { prefix + "host:" + name }

  /// The field for what a host says about itself; no breaker has an empty name.
  package static let ownField = ""
}
