/// A switch, and hosts that are plugged into it, each in a network namespace of its own.
///
/// Pulling a plug is silent: what was sent is lost, and no connection is ended by it. All of it goes
/// away with the processes that hold the namespaces, which end with this one.
package final class HostNetwork {
  private let middle: Namespace
  private var hosts: [String: Namespace] = [:]

  /// The address in the middle, which every host reaches.
  package let address = "10.91.0.1"

  private static let programs = ["/usr/bin/unshare", "/usr/bin/nsenter", "/usr/sbin/ip"]

  package init(_ names: [String]) throws {
    middle = try Namespace()
    try middle.run("ip", "link", "add", "name", "switch", "type", "bridge")
    try middle.run("ip", "address", "add", address + "/24", "dev", "switch")
    try middle.run("ip", "link", "set", "dev", "switch", "up")
    for (number, name) in names.enumerated() {
      let host = try Namespace()
      hosts[name] = host
      try middle.run(
        "ip", "link", "add", "name", name, "type", "veth", "peer", "name", "plug", "netns",
        "\(host.pid)")
      try host.run("ip", "address", "add", "10.91.0.\(number + 2)/24", "dev", "plug")
      try host.run("ip", "link", "set", "dev", "plug", "up")
      try middle.run("ip", "link", "set", "dev", name, "up")
      try join(name)
    }
  }

  /// Whether this process may make networks.
  package static let isPermitted =
    isSuperuser && programs.allSatisfy { Files.exists($0) } && (try? HostNetwork(["a"])) != nil

  /// The words before a command that runs it on a host, or in the middle.
  package func launcher(_ name: String? = nil) -> [String] {
    (name.flatMap { hosts[$0] } ?? middle).launcher
  }

  /// Pulls the plug of a host.
  package func cut(_ name: String) throws {
    try middle.run("ip", "link", "set", "dev", name, "nomaster")
  }

  /// Puts the plug of a host back in.
  package func join(_ name: String) throws {
    try middle.run("ip", "link", "set", "dev", name, "master", "switch")
  }
}

/// A network namespace, which lasts as long as a process that does nothing else.
private struct Namespace {
  private let holder: Child

  init() throws {
    // It ends when no process can write to it any more, so also if this process is killed.
    holder = try Child("/usr/bin/unshare", ["--net", "cat"])
    try holder.send("")
    guard try holder.line() == "" else { throw SupportError("unshare makes no network namespace") }
  }

  var pid: Int32 { holder.pid }

  var launcher: [String] { ["/usr/bin/nsenter", "--target", "\(pid)", "--net"] }

  func run(_ words: String...) throws {
    _ = try Child.run(launcher[0], launcher.dropFirst() + words)
  }
}
