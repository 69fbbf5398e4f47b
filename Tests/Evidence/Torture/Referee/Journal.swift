/// The records of one process, before and after each action.
///
/// Each line is one write, so a process that is killed leaves its last calls without an end. The
/// lines are:
///
/// - `b ID REAL STORE ACTION BREAKER DETAIL` when a call begins,
/// - `p ID PID` for the process that carries it out,
/// - `t REAL BREAKER FROM TO` for a change of state,
/// - `e ID REAL STORE s|m ANSWER` when a call ends, with `s` if the store has surely recorded it.
struct Journal: Sendable {
  /// The process that wrote the journal.
  var pid: Int32

  /// The calls by their numbers.
  var calls: [Int: Call] = [:]
  var notices: [Notice] = []

  /// When the process was killed, on the boot clock; nil if it ended by itself.
  var killed: Int64?

  /// When the process wrote its last line.
  private var last: Int64 = 0

  /// The time until which the process was surely alive.
  var alive: Int64 { killed ?? last }

  init(pid: Int32, killed: Int64? = nil) {
    self.pid = pid
    self.killed = killed
  }

  /// Reads a journal from its lines.
  init(pid: Int32, killed: Int64? = nil, lines: [UInt8]) throws {
    self.init(pid: pid, killed: killed)
    var open: Set<Int> = []
    for line in lines.split(separator: 0x0A) {
      let words = line.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
      try read(words, &open)
    }
  }

  /// Reads a journal from text.
  init(pid: Int32, killed: Int64? = nil, _ text: String) throws {
    try self.init(pid: pid, killed: killed, lines: Array(text.utf8))
  }

  /// The calls whose end is not known.
  var openCalls: [Call] { calls.values.filter { $0.ended == nil } }

  private mutating func read(_ words: [String], _ open: inout Set<Int>) throws {
    switch words.first {
    case "b" where words.count == 7:
      guard let action = Call.Action(rawValue: words[4]) else { throw Illegible(words) }
      let id = Int(try number(words, 1))
      let began = try when(words, 2)
      calls[id] = Call(action, words[5], pid: pid, detail: words[6], began: began)
      open.insert(id)
    case "p" where words.count == 3:
      let id = Int(try number(words, 1))
      let pid = Int32(truncatingIfNeeded: try number(words, 2))
      calls[id]?.pid = pid
    case "e" where words.count == 6:
      let id = Int(try number(words, 1))
      let ended = try when(words, 2)
      calls[id]?.ended = ended
      calls[id]?.isByStore = words[4] == "s"
      calls[id]?.answer = words[5]
      open.remove(id)
    case "t" where words.count == 5:
      let told = try number(words, 1)
      // The change was made by one of the calls that had not ended.
      let began = open.compactMap { calls[$0]?.began.real }.min() ?? told
      notices.append(
        Notice(breaker: words[2], from: words[3], to: words[4], began: began, told: told))
    default:
      throw Illegible(words)
    }
  }

  private mutating func when(_ words: [String], _ index: Int) throws -> When {
    let real = try number(words, index)
    last = max(last, real)
    return When(real: real, store: try number(words, index + 1))
  }

  private func number(_ words: [String], _ index: Int) throws -> Int64 {
    guard let number = Int64(words[index]) else { throw Illegible(words) }
    return number
  }
}

/// A line that cannot be read.
struct Illegible: Error, CustomStringConvertible {
  var description: String

  init(_ words: [String]) { description = "no line of a journal: \(words.joined(separator: " "))" }
}
