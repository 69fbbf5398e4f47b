@_spi(Command) import SharedBreaker

/// The kind of value that an argument or option takes.
enum ValueKind: Sendable, Hashable {
  case text

  /// A message from a person or a program, which can be any text.
  case remark

  /// A command line for a shell.
  case shellLine
  case name
  case pattern
  case path
  case token
  case duration

  /// A time of day, or an instant as RFC 3339 writes it.
  case time

  /// An instant that has passed: one of these, `today`, `yesterday`, or so long ago.
  case past
  case count

  /// A count that may be 0.
  case countFromZero
  case rate
  case factor
  case pid
  case exitCodes

  /// Exit codes, and a time that they stand for, as in `29=10s`.
  case heldCodes
  case fileMode
  case permissions
  case group
  case policy(PolicyKey)
  case policySetting
  case policyKey
  case choice([String])

  /// A command or a topic of help.
  case topic

  /// The words of another program's command line, which are passed on unchanged.
  case commandLine

  /// The placeholder for the value in help.
  var placeholder: String {
    switch self {
    case .text, .remark: "TEXT"
    case .shellLine: "CMD"
    case .name, .pattern: "NAME"
    case .path: "PATH"
    case .token: "TOKEN"
    case .duration: "D"
    case .time: "T"
    case .past: "D|T"
    case .count, .countFromZero: "N"
    case .rate: "P"
    case .factor: "X"
    case .pid: "PID"
    case .exitCodes: "CODES"
    case .heldCodes: "CODES[=D]"
    case .fileMode, .permissions: "MODE"
    case .group: "GROUP"
    case .policy(let key):
      key.words.isEmpty ? key.value.placeholder : key.words.joined(separator: "|")
    case .policySetting: "K=V"
    case .policyKey: "K"
    case .choice(let words): words.joined(separator: "|")
    case .topic: "TOPIC"
    case .commandLine: "COMMAND"
    }
  }

  /// The form of a valid value, for error messages.
  var form: String {
    switch self {
    case .text, .remark, .topic, .pattern, .commandLine: "use text"
    case .shellLine: "use a command line for /bin/sh"
    case .path: "use the path of a file"
    case .group: "use the name or number of one of its groups"
    case .name: NameRule.remedy
    case .token: "use the text that 'cbctl acquire' printed"
    case .duration: "use a time such as 250ms, 30s, 5m, 1h30m or 1d"
    case .time: "use a time of day such as 14:05, or an instant such as 2026-11-27T14:05:00Z"
    case .past: "use a time such as 1h, 09:00, yesterday or 2026-11-27T09:00:00Z"
    case .count, .countFromZero: "use a whole number such as 10"
    case .rate: PolicyKey.Value.rate.form
    case .factor: PolicyKey.Value.factor.form
    case .pid: "use the number of a process, such as $$"
    case .exitCodes: "use codes from 1 to 255 such as 3,4,10-12"
    case .heldCodes: "use codes, and a time if you know one, as in 29=10s"
    case .fileMode: "use an octal mode such as 600, 660 or 666"
    case .permissions: "use an octal mode such as 600, 640 or 644"
    case .policy(let key):
      key.words.isEmpty ? key.value.form : "use \(key.words.joined(separator: " or "))"
    case .policySetting: "use KEY=VALUE, as in open-for=1m"
    case .policyKey: "run 'cbctl help policy-words' for the words of a policy"
    case .choice(let words): "use \(words.joined(separator: ", "))"
    }
  }
}

extension PolicyKey.Value {
  var placeholder: String {
    switch self {
    case .count: "N"
    case .duration: "D"
    case .rate: "P"
    case .factor: "X"
    case .countOrRate: "N|P"
    case .callRate: "N/D"
    case .word: "WORD"
    @unknown default: "VALUE"
    }
  }

  var form: String {
    switch self {
    case .count: "use a whole number such as 5"
    case .duration: ValueKind.duration.form
    case .rate: "use a rate such as 50%"
    case .factor: "use a factor such as 1.5"
    case .countOrRate: "use a whole number such as 3, or a rate such as 30%"
    case .callRate: "use calls in a time such as 500/1m or 1/120ms"
    case .word: "use one of the words that 'cbctl help policy-words' names"
    @unknown default: "run 'cbctl help policy-words' for the words of a policy"
    }
  }
}

/// A valid value of an option or argument.
enum ParsedValue: Sendable, Hashable {
  case flag
  case text(String)
  case duration(Duration)
  case number(Int64)
  case rate(BreakerPolicy.Rate)
  case factor(Double)
  case codes(Set<Int32>)
  case heldCodes(Set<Int32>, Duration?)
  case setting(PolicyKey, String)
  case key(PolicyKey)
}

extension ValueKind {
  /// Reads a value, or throws why it is not valid.
  func parse(_ text: String) throws(ValueComplaint) -> ParsedValue {
    switch self {
    case .text, .remark, .topic, .commandLine: return .text(text)
    case .path, .pattern, .token, .shellLine:
      if text.isEmpty { throw ValueComplaint("it is empty", form) }
      // No path or name is longer on this system, and error messages repeat the value.
      if text.utf8.count > 4_095 { throw ValueComplaint("it is too long", form) }
      return .text(text)
    case .group:
      guard let name = HostGroup.name(of: text) else {
        throw ValueComplaint("this host has no such group", form)
      }
      return .text(name)
    case .name:
      if let complaint = NameRule.complaint(about: text) { throw ValueComplaint(complaint, form) }
      return .text(text)
    case .duration:
      guard let duration = DurationText.parse(text) else {
        throw ValueComplaint("it is not a time", form)
      }
      return .duration(duration)
    case .past:
      guard TimeText.past(text, now: BreakerTimestamp(millisecondsSince1970: 0)) != nil else {
        throw ValueComplaint("it is not a time", form)
      }
      return .text(text)
    case .time:
      guard TimeText.isReadable(text) else { throw ValueComplaint("it is not a time", form) }
      return .text(text)
    case .count: return .number(try number(text, 1...Int64.max, "it is not a whole number above 0"))
    case .countFromZero: return .number(try number(text, 0...Int64.max, "it is not a whole number"))
    case .rate:
      guard let rate = BreakerPolicy.Rate(text) else {
        throw ValueComplaint("it is not a rate", form)
      }
      return .rate(rate)
    case .factor: return .factor(try factor(text))
    case .pid: return .number(try number(text, 1...Int64(Int32.max), "it is not a process number"))
    case .exitCodes: return .codes(try codes(text))
    case .heldCodes:
      let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let time = parts.count > 1 ? DurationText.parse(String(parts[1])) : nil
      guard parts.count == 1 || time != nil else { throw ValueComplaint("it is not a time", form) }
      return .heldCodes(try codes(String(parts[0])), time)
    case .fileMode: return .number(try FileModeText.parse(text))
    case .permissions: return .number(try FileModeText.parsePlain(text, form: form))
    case .policy(let key):
      try checkPolicy(key, text)
      return .text(text)
    case .policySetting: return try setting(text)
    case .policyKey: return .key(try key(text))
    case .choice(let words):
      guard words.contains(text) else {
        let meant = Suggestion.nearest(to: text, among: words).map { "did you mean '\($0)'?" }
        throw ValueComplaint(nil, meant ?? form)
      }
      return .text(text)
    }
  }

  private func number(
    _ text: String, _ range: ClosedRange<Int64>, _ complaint: String
  ) throws(ValueComplaint) -> Int64 {
    let isPlain = text.utf8.allSatisfy { (0x30...0x39).contains($0) }
    guard isPlain, let number = Int64(text), range.contains(number) else {
      throw ValueComplaint(complaint, form)
    }
    return number
  }

  private func factor(_ text: String) throws(ValueComplaint) -> Double {
    let isPlain = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E }
    guard isPlain, text.utf8.count <= 20, let factor = Double(text) else {
      throw ValueComplaint("it is not a factor", form)
    }
    return factor
  }

  private func codes(_ text: String) throws(ValueComplaint) -> Set<Int32> {
    var codes: Set<Int32> = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let ends = part.split(separator: "-", omittingEmptySubsequences: false)
      let numbers = try ends.map { end throws(ValueComplaint) in
        Int32(
          try number(
            String(end), 0...255, "\(VisibleText.quoted(String(part))) is not an exit code"))
      }
      guard let first = numbers.first, let last = numbers.last, numbers.count <= 2, first <= last
      else {
        throw ValueComplaint(
          "\(VisibleText.quoted(String(part))) is not a range of exit codes", form)
      }
      codes.formUnion(first...last)
    }
    guard !codes.contains(0) else { throw ValueComplaint("the code 0 is a success", form) }
    return codes
  }

  private func key(_ text: String) throws(ValueComplaint) -> PolicyKey {
    if let key = PolicyKey(rawValue: text) { return key }
    let keys = PolicyKey.allCases.map(\.rawValue)
    let meant = Suggestion.nearest(to: text, among: keys).map { "did you mean '\($0)'?" }
    throw ValueComplaint("it is not a word of a policy", meant ?? ValueKind.policyKey.form)
  }

  private func setting(_ text: String) throws(ValueComplaint) -> ParsedValue {
    guard let separator = text.utf8.firstIndex(of: UInt8(ascii: "=")) else {
      throw ValueComplaint("it has no value", form)
    }
    let key = try key(String(text[..<separator]))
    let value = String(text[text.utf8.index(after: separator)...])
    try checkPolicy(key, value)
    return .setting(key, value)
  }

  private func checkPolicy(_ key: PolicyKey, _ text: String) throws(ValueComplaint) {
    var policy = BreakerPolicy()
    do { try policy.set(key, to: text) } catch {
      let none = key.isOptional ? ", or none" : ""
      let meant = key.value == .rate ? RateGuess.meant(by: text) : nil
      throw ValueComplaint(
        "it is not a value of \(key.rawValue)",
        meant.map { "did you mean '\($0)'?" } ?? key.value.form + none)
    }
  }
}

/// A guess at a share without a percent sign.
private enum RateGuess {
  /// Below 1 it is a fraction, above 1 a percentage; 1 could be either.
  static func meant(by text: String) -> String? {
    guard let number = Double(text), number > 0, number <= 100, number != 1 else { return nil }
    return (number < 1 ? BreakerPolicy.Rate(number) : .percent(number)).description
  }
}

/// Why a text is not a valid value, and the form of a valid one.
struct ValueComplaint: Error, Hashable {
  /// The reason; nil if the text is just not one of the possible words.
  var why: String?
  var remedy: String

  init(_ why: String?, _ remedy: String) {
    self.why = why
    self.remedy = remedy
  }
}

/// The permissions of a store's files: users who may read them must also be able to write.
private enum FileModeText {
  static func parse(_ text: String) throws(ValueComplaint) -> Int64 {
    let form = ValueKind.fileMode.form
    let mode = try parsePlain(text, form: form)
    guard mode & 0o111 == 0 else {
      throw ValueComplaint("the files of a store cannot be executable", form)
    }
    guard mode & 0o600 == 0o600 else {
      throw ValueComplaint("the owner must be able to read and write", form)
    }
    for (who, shift, example) in [("the group", 3, "660"), ("others", 0, "666")] {
      let bits = mode >> Int64(shift) & 0o6
      if bits == 0o4 { throw ValueComplaint("\(who) must be able to write too", "use \(example)") }
      if bits == 0o2 { throw ValueComplaint("\(who) must be able to read too", "use \(example)") }
    }
    return mode
  }

  /// Reads the permissions of any file.
  static func parsePlain(_ text: String, form: String) throws(ValueComplaint) -> Int64 {
    guard text.utf8.allSatisfy({ (0x30...0x37).contains($0) }), let mode = Int64(text, radix: 8),
      mode <= 0o777
    else { throw ValueComplaint("it is not a mode", form) }
    return mode
  }
}

/// The library's rule for names, which a command applies before it does anything.
private enum NameRule {
  static let remedy = "use 1 to 255 bytes of text without control characters"

  /// Returns the mistake in a name; nil if it is valid.
  static func complaint(about name: String) -> String? {
    do throws(BreakerError) {
      try Breaker.validate(name: name)
      return nil
    } catch {
      guard case .invalidName(let complaint) = error else { return error.description }
      return complaint
    }
  }
}

/// A parsed command line: the command and its values.
struct ParsedCommand: Sendable {
  var spec: CommandSpec
  var global: GlobalOptions

  /// The values of options and arguments, by option name or argument label.
  var values: [String: [ParsedValue]] = [:]

  /// The other program's command line, byte for byte.
  var commandLine: [[UInt8]] = []

  func has(_ name: String) -> Bool { values[name] != nil }

  func text(_ name: String) -> String? { texts(name).last }

  func texts(_ name: String) -> [String] {
    (values[name] ?? []).compactMap { value in
      if case .text(let text) = value { text } else { nil }
    }
  }

  /// The distinct values of a repeatable argument, in the order given.
  func distinctTexts(_ name: String) -> [String] {
    var seen: Set<[UInt8]> = []
    return texts(name).filter { seen.insert(Array($0.utf8)).inserted }
  }

  /// The names and patterns of the breakers that a command prints; empty for all of them.
  var patterns: [NamePattern] { distinctTexts("NAME").map { NamePattern($0) } }

  func duration(_ name: String) -> Duration? {
    if case .duration(let duration)? = values[name]?.last { duration } else { nil }
  }

  func number(_ name: String) -> Int64? {
    if case .number(let number)? = values[name]?.last { number } else { nil }
  }

  func rate(_ name: String) -> BreakerPolicy.Rate? {
    if case .rate(let rate)? = values[name]?.last { rate } else { nil }
  }

  func factor(_ name: String) -> Double? {
    if case .factor(let factor)? = values[name]?.last { factor } else { nil }
  }

  func codes(_ name: String) -> Set<Int32> {
    var codes: Set<Int32> = []
    for case .codes(let more) in values[name] ?? [] { codes.formUnion(more) }
    return codes
  }

  func heldCodes(_ name: String) -> [Int32: Duration?] {
    var times: [Int32: Duration?] = [:]
    for case .heldCodes(let codes, let time) in values[name] ?? [] {
      for code in codes { times[code] = .some(time) }
    }
    return times
  }

  func settings(_ name: String) -> [PolicyKey: String] {
    var settings: [PolicyKey: String] = [:]
    for case .setting(let key, let text) in values[name] ?? [] { settings[key] = text }
    return settings
  }

  func keys(_ name: String) -> Set<PolicyKey> {
    var keys: Set<PolicyKey> = []
    for case .key(let key) in values[name] ?? [] { keys.insert(key) }
    return keys
  }
}
