import Glibc
import TestSupport

/// A process that makes calls under a limit like a shell script, through `cbctl run`.
final class LimitCommander {
  private let socket: String
  private let store: String
  private let life: String
  private let mayKill: Bool
  private var random: SeededRandom

  /// Reads its words: the witness, the store, the name of this process, its seed, and `kill` if it
  /// kills what it has started now and then.
  init(_ words: [String]) throws {
    guard words.count >= 4, let seed = UInt64(words[3]) else { throw SupportError("too few words") }
    (socket, store, life) = (words[0], words[1], words[2])
    mayKill = words.dropFirst(4).contains("kill")
    random = SeededRandom(seed: seed)
  }

  func run() throws {
    var number = 0
    while try run(number) { number += 1 }
  }

  /// The words of a command that makes a call which takes some time.
  static func words(
    _ call: String, units: Int, inBackground: Bool, microseconds: Int, store: String, socket: String
  ) -> [String] {
    ["run", "api", "--store", store, "--on-store-failure", "fail", "--units", "\(units)"]
      + (inBackground ? ["--background"] : [])
      + ["--", BuiltProducts.path(of: "torture"), "limit-hold", socket, call, "\(microseconds)"]
  }

  /// Runs a command to its end, or kills `cbctl` now and then; false if all is over.
  private func run(_ number: Int) throws -> Bool {
    let (units, inBackground) = (random.pick([1, 1, 2, 3]), random.number(0...3) == 0)
    let isKilled = mayKill && random.number(0...5) == 0
    let patience = UInt32(random.number(0...200_000))
    // Each command is a process, so each call has a life of its own.
    let its = "\(life)c\(number)"
    guard let testimony = Testimony(of: "\(its).1", to: socket),
      testimony.want(units, inBackground: inBackground)
    else { return false }
    let words = Self.words(
      "\(its).1", units: units, inBackground: inBackground,
      microseconds: random.number(0...20_000), store: store, socket: socket)
    let child = try Child(BuiltProducts.path(of: "cbctl"), words, hasWords: true)
    if isKilled {
      usleep(patience)
      if !child.hasEnded {
        child.stop()
        testimony.tell("gone \(its)")
        child.kill()
        testimony.tell("dead \(its)")
      }
    }
    let output = try child.rest()
    switch child.waitForEnd() {
    case 0: testimony.end("ran")
    case 75, 69: testimony.end("busy")
    case -SIGKILL where isKilled: break
    case let code: testimony.tell("odd cbctl ended with \(code): \(output)")
    }
    return true
  }

  /// Runs as the command while it has room.
  static func hold(_ words: [String]) throws {
    guard words.count == 3, let time = UInt32(words[2]),
      let testimony = Testimony(of: words[1], to: words[0])
    else { return }
    testimony.hold()
    usleep(time)
    testimony.leave()
  }
}
