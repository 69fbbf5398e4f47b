import Glibc
import TestSupport

/// One scenario while it is played in one environment: its store, its processes, and its problems.
final class Scene {
  enum Side: String, CaseIterable { case outside, inside }

  /// A user other than root, and the only group of that user.
  struct User {
    var user: Int
    var group: Int
  }

  /// How a command ended, and everything that it printed.
  struct Told {
    var code: Int32
    var text: String
  }

  let environment: Environment
  let directory: TemporaryDirectory

  /// The path of the store, in a directory that does not exist yet.
  let store: String
  private(set) var problems: [String] = []

  /// A fact about the scenario that readers of the run should know, though nothing is wrong.
  var remark: String?
  private var longest: Int64 = 0
  private var insiders = 0

  init(in environment: Environment) throws {
    self.environment = environment
    directory = try TemporaryDirectory()
    guard !environment.disk.isEmpty else {
      store = directory.store
      return
    }
    let disk = directory.file("disk")
    store = disk + "/state/breakers.db"
    try Files.makeDirectory(disk)
    let mounting = """
      room='\(directory.path)' disk='\(disk)' image='\(directory.file("image"))'
      PATH="$PATH:/usr/sbin:/sbin"
      \(environment.disk)
      """
    let told = try Self.run(["sh", "-ec", mounting])
    guard told.code == 0 else { throw SupportError(told.text.inOneLine) }
  }

  deinit {
    // The run has a mount namespace of its own, so what is still mounted after this ends with it.
    guard !environment.disk.isEmpty else { return }
    for name in ["disk", "layers"] where Files.exists(directory.file(name)) {
      _ = try? Self.run(["umount", "-l", directory.file(name)])
    }
  }

  var storeDirectory: String { String(store.dropLast("/breakers.db".count)) }

  /// The paths of the store's existing files.
  var files: [String] {
    ["", "-wal", "-shm", "-counters"].map { store + $0 }.filter { Files.exists($0) }
  }

  /// Nanoseconds of the host's boot clock.
  static func now() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_BOOTTIME, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}

/// Starting, commanding and killing processes.
extension Scene {
  private func launcher(_ side: Side, _ user: User?) -> [String] {
    let environment = side == .inside ? environment.launcher : []
    guard let user else { return environment }
    return environment + [
      "setpriv", "--reuid", "\(user.user)", "--regid", "\(user.group)", "--clear-groups",
      "--pdeathsig", "SIGKILL",
    ]
  }

  func puppet(_ side: Side, as user: User? = nil, in group: MemoryGroup? = nil) throws -> Puppet {
    var options: [String] = []
    if environment.isStarved, side == .inside {
      // One process cannot open anything; the next one can open a part of what it needs.
      options = ["descriptors=\(insiders.isMultiple(of: 2) ? 0 : 4 + insiders)"]
      insiders += 1
    }
    let launcher = launcher(side, user) + (group?.launcher ?? [])
    return try Puppet(onHostClock: store, startedBy: launcher, options)
  }

  /// Starts puppets, alternately outside and inside, whose breaker has a policy.
  func puppets(each count: Int, _ policy: String = "") throws -> [Puppet] {
    let puppets = try (0..<count).flatMap { _ in try Side.allCases.map { try puppet($0) } }
    try tell(puppets, "open \(policy)")
    return puppets
  }

  /// Runs `cbctl` with words that are separated by spaces.
  func cbctl(_ side: Side, _ words: String, as user: User? = nil) throws -> Told {
    try run(side, command(words), as: user)
  }

  /// Starts `cbctl` without waiting for its end.
  func start(_ side: Side, _ words: String) throws -> Child {
    try Self.start(launcher(side, nil) + command(words))
  }

  private func command(_ words: String) -> [String] {
    [BuiltProducts.path(of: "cbctl"), "--store", store]
      + words.split(separator: " ").map { String($0) }
  }

  func run(_ side: Side, _ words: [String], as user: User? = nil) throws -> Told {
    try Self.run(launcher(side, user) + words)
  }

  private static func start(_ words: [String]) throws -> Child {
    try Child("/usr/bin/env", words, hasWords: true)
  }

  private static func run(_ words: [String]) throws -> Told {
    let child = try start(words)
    let text = try child.rest()
    return Told(code: child.waitForEnd(), text: text)
  }

  /// Lets the kernel kill processes because they need more memory than their group has.
  func starve(_ puppets: [Puppet]) throws {
    for puppet in puppets {
      try puppet.send("devour")
      _ = try puppet.process.rest()
      let code = puppet.process.waitForEnd()
      // Some commands that have started it do not tell of the signal.
      expect(code != 0, "a process without memory ended by itself")
    }
  }

  /// Kills processes with `kill -9`, and waits until they are gone.
  func kill(_ puppets: Puppet...) throws { try kill(puppets) }

  func kill(_ puppets: [Puppet]) throws {
    for puppet in puppets {
      puppet.kill()
      // The killed process may be the command that started the puppet; the puppet ends a moment
      // later.
      _ = try puppet.process.rest()
    }
  }

  /// Sends all puppets a command, which they must answer with "ok".
  func tell(_ puppets: [Puppet], _ command: String) throws {
    for answer in try puppets.ask(command) where answer != "ok" {
      throw SupportError("\(command): \(answer)")
    }
  }
}

/// Expecting and waiting.
extension Scene {
  func expect(_ holds: Bool, _ problem: @autoclosure () -> String) {
    if !holds { problems.append(problem()) }
  }

  func expect<Value: Equatable>(_ seen: Value, is wanted: Value, _ what: String) {
    expect(seen == wanted, "\(what): \(seen), not \(wanted)")
  }

  func expect(_ told: Told, hasCode code: Int32, _ what: String) {
    expect(told.code == code, "\(what): code \(told.code), not \(code): \(told.text.inOneLine)")
  }

  /// Remarks what took longest: only a bound that a busy machine keeps is expected.
  func note(_ what: String, _ milliseconds: Int64) {
    guard milliseconds >= longest else { return }
    longest = milliseconds
    remark = "\(what): at most \(milliseconds) ms"
  }

  /// Notes the error that ended the scenario early.
  func ended(by error: any Error) { problems.append("ended early: \(error)") }

  /// Waits for something to happen, for as long as a busy machine may need.
  func until<Value>(_ what: @autoclosure () -> String, _ look: () throws -> Value?) throws -> Value
  {
    let deadline = Self.now() + 30_000_000_000
    while Self.now() < deadline {
      if let value = try look() { return value }
      usleep(20_000)
    }
    throw SupportError("waited 30 s until \(what())")
  }

  /// Makes a puppet ask until its call is permitted.
  ///
  /// - Returns: The kind of its permit.
  func permit(for puppet: Puppet, _ what: String) throws -> String {
    try until("\(what) is permitted") {
      let answer = try puppet.ask("acquire")
      return answer.hasPrefix("rejected") ? nil : answer
    }
  }
}

extension String {
  /// The lines of the text as one line, for a message.
  var inOneLine: String { split(separator: "\n").joined(separator: " | ") }

  /// The text of a member of the JSON document that is an object without nested objects.
  func member(_ name: String) -> String {
    guard let start = firstRange(of: "\"\(name)\":{") else { return "no \(name) in \(inOneLine)" }
    return "{" + self[start.upperBound...].prefix { $0 != "}" } + "}"
  }
}
