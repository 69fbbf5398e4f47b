import SharedBreaker

/// A valid value of an option or argument.
enum ParsedValue: Sendable, Hashable {
  case flag
  case text(String)
  case duration(Duration)
  case number(Int64)
  case rate(BreakerPolicy.Rate)
  case factor(Double)
  case codes(Set<Int32>)
  case setting(PolicyKey, String)
  case key(PolicyKey)
}

extension ValueKind {
  /// Reads a value, or throws why it is not valid.
  func parse(_ text: String) throws(ValueComplaint) -> ParsedValue {
    switch self {
    case .text, .remark, .topic, .shellLine, .commandLine: return .text(text)
    case .path, .pattern, .token:
      if text.isEmpty { throw ValueComplaint("it is empty", form) }
      // No path or name of the system is longer, and error messages repeat the value.
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
    case .count: return .number(try number(text, 1...Int64.max, "it is not a whole number above 0"))
    case .countFromZero: return .number(try number(text, 0...Int64.max, "it is not a whole number"))
    case .rate:
      guard let rate = RateText.parse(text) else { throw ValueComplaint("it is not a rate", form) }
      return .rate(rate)
    case .factor: return .factor(try factor(text))
    case .pid: return .number(try number(text, 1...Int64(Int32.max), "it is not a process number"))
    case .exitCodes: return .codes(try codes(text))
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

/// What a share without a percent sign means.
private enum RateGuess {
  /// Below 1 it is a fraction, above 1 a percentage; 1 could be either.
  static func meant(by text: String) -> String? {
    guard let number = Double(text), number > 0, number <= 100, number != 1 else { return nil }
    return RateText.format(number < 1 ? BreakerPolicy.Rate(number) : .percent(number))
  }
}

/// Why a text is not a valid value, and what a valid one looks like.
struct ValueComplaint: Error, Hashable {
  /// The reason; nil if the text is simply none of the possible words.
  var why: String?
  var remedy: String

  init(_ why: String?, _ remedy: String) {
    self.why = why
    self.remedy = remedy
  }
}
