import Glibc
import SharedBreaker
import TestSupport

/// A process that uses breakers like a shell script, through `cbctl` and the sqlite3 shell.
final class Commander {
  private let board: Board
  private let scribe: Scribe
  private let store: String
  private let breakers: [String]
  private let policyFlags: [String]
  private let program: String

  /// The words before those of a command.
  private let prefix: [String]
  private let hasOperators: Bool
  private let hasDeletions: Bool

  /// Whether the sqlite3 shell may be used; it would mistake the log of one file for that of
  /// another.
  private let hasShell: Bool
  private var random: SeededRandom
  private var tokens: [(id: Int, breaker: String, text: String)] = []

  init(_ role: Role) throws {
    board = try Board(path: role.text("board"))
    scribe = try Scribe(path: role.text("journal"), clock: role.clock())
    store = try role.text("store")
    breakers = try role.text("breakers").split(separator: ",").map { String($0) }
    policyFlags = try role.text("policy").split(separator: " ").flatMap { word in
      let parts = word.split(separator: "=", maxSplits: 1)
      return ["--\(parts[0])", String(parts[1])]
    }
    if role.has("clock") {
      program = BuiltProducts.path(of: "torture")
      prefix = ["cbctl", "clock=\(try role.text("clock"))"]
    } else {
      program = BuiltProducts.path(of: "cbctl")
      prefix = []
    }
    hasOperators = role.has("operators")
    hasDeletions = role.has("deletions")
    hasShell = role.has("shell")
    random = SeededRandom(seed: try role.seed())
  }

  /// Works until the referee heals the resources.
  func run() throws {
    while !board.isOver, !board.isHealing {
      try act()
      usleep(UInt32(random.number(0...10_000)))
    }
  }

  private func act() throws {
    let name = random.pick(breakers)
    switch random.number(0...99) {
    case 0..<20: try run(name)
    case 20..<35: try acquire(name)
    case 35..<50: try reportOne()
    case 50..<65: try command(.check, name, ["check", name])
    case 65..<68: try command(.check, "nobody", ["check", "nobody"], detail: "unknown")
    case 68..<70: try command(.look, name, ["check"], detail: "usage")
    case 70..<82: try look(name)
    case 82..<85 where hasOperators: try command(.trip, name, ["trip", name, "--for", "80ms"])
    case 85..<88 where hasOperators: try command(.reset, name, ["reset", name])
    case 88..<94 where hasDeletions:
      try command(.look, name, ["delete", name, "--force"], detail: "deletion")
    default: try shell()
    }
  }

  private func run(_ name: String) throws {
    let (detail, command) = random.pick([
      ("true", ["true"]), ("true", ["true"]), ("false", ["false"]),
      ("exit7", ["sh", "-c", "exit 7"]),
    ])
    try self.command(.run, name, ["run", name] + policyFlags + ["--"] + command, detail: detail)
  }

  private func acquire(_ name: String) throws {
    let owner = random.number(0...1) == 0 ? ["--owner-pid", "\(getpid())"] : []
    try command(.acquire, name, ["acquire", name] + policyFlags + owner)
  }

  private func reportOne() throws {
    guard !tokens.isEmpty else { return }
    let token = tokens.remove(at: random.number(0...tokens.count - 1))
    let outcome = random.pick(["success", "success", "failure", "ignored"])
    try command(
      .report, token.breaker, ["report", token.text, outcome], detail: "\(outcome)/\(token.id)")
  }

  private func look(_ name: String) throws {
    let words = random.pick([
      ["status"], ["status", "--json"], ["show", name], ["history", name, "--json"],
      ["policy", name],
    ])
    try command(.look, name, words)
  }
}

extension Commander {
  /// Runs a command to its end, or kills it now and then.
  private func command(
    _ action: Call.Action, _ breaker: String, _ words: [String], detail: String = "-"
  ) throws {
    let isKilled = random.number(0...9) == 0
    let patience = UInt32(random.number(0...12_000))
    let id = scribe.began(action, breaker, detail)
    let child = try Child(program, prefix + ["--store", store] + words, hasWords: true)
    scribe.started(id, pid: child.pid)
    if isKilled {
      usleep(patience)
      kill(child.pid, SIGKILL)
    }
    let output = try child.rest()
    let status = child.waitForEnd()
    let answer = answer(to: action, status, output, isKilled: isKilled)
    // A command that continues without the store prints a message. One that prints none used the
    // store.
    let isByStore = !output.contains("cbctl: ") || status == 75
    scribe.ended(id, isByStore: isByStore && status != -SIGKILL, answer)
    if action == .acquire, status == 0 {
      tokens.append((id, breaker, output.split(separator: "\n").first.map { String($0) } ?? ""))
    }
  }

  private func answer(
    to action: Call.Action, _ status: Int32, _ output: String, isKilled: Bool
  ) -> String {
    if status == -SIGKILL, isKilled { return "killed" }
    guard status >= 0 else { return "signal\(-status)" }
    guard action == .acquire else { return "exit\(status)" }
    if status == 75 { return "rejected" }
    let token = PermitToken(output.split(separator: "\n").first.map { String($0) } ?? "")
    guard status == 0, let token else { return "exit\(status)" }
    return token.kind.wireName
  }

  /// Reads the file, holds its lock for a moment, or changes something irrelevant, without any of
  /// the library's code.
  ///
  /// It never checkpoints, because SQLite before 3.51.3 damages a file when that overlaps a commit.
  private func shell() throws {
    guard hasShell else { return }
    let setUp = "PRAGMA wal_autocheckpoint=0; "
    let words = random.pick([
      "SELECT count(*) FROM event; SELECT sum(failures) FROM breaker;",
      "BEGIN IMMEDIATE;\n.shell sleep 0.0\(random.number(1...9))\nROLLBACK;",
      "BEGIN;\nSELECT count(*) FROM breaker;\n.shell sleep 0.1\nSELECT count(*) FROM event;\nEND;",
      "UPDATE store SET recovered_at_ms = \(random.number(1...1_000_000));",
    ])
    let child = try Child(
      "/usr/bin/sqlite3", ["-cmd", ".timeout 300", "-cmd", setUp, store], hasWords: true)
    for line in words.split(separator: "\n") { try child.send(String(line)) }
    try child.send(".quit")
    if random.number(0...9) == 0 {
      usleep(UInt32(random.number(0...60_000)))
      kill(child.pid, SIGKILL)
    }
    _ = try child.rest()
    _ = child.waitForEnd()
  }
}
