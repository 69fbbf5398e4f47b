@_spi(Command) internal import BreakerCore
internal import Glibc
internal import JSONText

/// Policies from text outside the code, in the words of `cbctl policy --set`.
///
/// The words are applied to another policy, so a file or a variable needs to contain only what
/// differs. The word `none` removes an optional value. Every mistake is an error that says which
/// word is wrong, why, and what to do.
extension BreakerPolicy {
  /// Reads a policy from words such as `max-failures=3 open-for=1m`.
  ///
  /// ```swift
  /// let policy = try BreakerPolicy(words: "open-for=1m open-max=none", over: .http)
  /// ```
  ///
  /// - Parameters:
  ///   - words: The words, separated by spaces.
  ///   - base: The policy that supplies all values that the words do not set.
  /// - Throws: `PolicyError` if a word is unknown, is given twice or has an invalid value, or if
  ///   the resulting policy is not valid.
  public init(words: String, over base: BreakerPolicy = BreakerPolicy()) throws(PolicyError) {
    var said: Set<Substring> = []
    for word in words.split(separator: " ") {
      let key = word.prefix { $0 != "=" }
      guard said.insert(key).inserted else { throw PolicyError(saidTwice: String(key)) }
    }
    self = try PolicyWords(text: words).applied(to: base)
  }

  /// Reads a policy from an environment variable, which holds words or a JSON object.
  ///
  /// ```swift
  /// let policy = try BreakerPolicy(environment: "PAYMENTS_BREAKER", over: .http)
  /// ```
  ///
  /// - Parameters:
  ///   - variable: The name of the variable.
  ///   - base: The policy that supplies all values that the variable does not set. If the variable
  ///     does not exist, it is the result.
  /// - Throws: `PolicyError` as for words and for JSON; its text begins with the name of the
  ///   variable.
  public init(
    environment variable: String, over base: BreakerPolicy = BreakerPolicy()
  ) throws(PolicyError) {
    try self.init(environment: variable, over: base) { name in
      guard let value = unsafe getenv(name) else { return nil }
      return unsafe String(cString: value)
    }
  }

  package init(
    environment variable: String, over base: BreakerPolicy, _ value: (String) -> String?
  ) throws(PolicyError) {
    guard let text = value(variable) else {
      self = base
      return
    }
    do throws(PolicyError) {
      let isObject = text.drop { " \t\n".contains($0) }.first == "{"
      self = try isObject ? Self(json: text, over: base) : Self(words: text, over: base)
    } catch {
      throw PolicyError(about: error.key, "\(variable): \(error.description)")
    }
  }
}

extension PolicyError {
  init(saidTwice key: String) {
    self.init(about: key, "\(OutsideText.quoted(key)) is set twice: set it once")
  }

  /// Creates an error about a word, whether or not the word is one of a policy.
  init(about key: String, _ description: String) {
    self.init(unknownKey: key)
    self.description = description
  }
}

/// Policies as JSON, in the format of the `policy` object of `cbctl show --json`.
extension BreakerPolicy {
  /// Reads a policy from a JSON object such as `{"max-failures": 3, "open-for": "1m"}`.
  ///
  /// Counts and factors are numbers, times and rates are strings, and `null` removes a value.
  ///
  /// - Parameters:
  ///   - text: The object, and nothing else.
  ///   - base: The policy that supplies all values that the object does not set.
  /// - Throws: `PolicyError` if the text is not a JSON object, if a key is unknown, is given twice
  ///   or has an invalid value, or if the resulting policy is not valid.
  public init(json text: String, over base: BreakerPolicy = BreakerPolicy()) throws(PolicyError) {
    let members: [JSONMember]
    do throws(JSONError) {
      members = try JSONObjectReader.members(of: text, standingFor: "a policy")
    } catch {
      throw PolicyError(about: "", error.description)
    }
    var values: [PolicyKey: String] = [:]
    for member in members {
      guard let key = PolicyKey(rawValue: member.key) else {
        throw PolicyError(unknownKey: member.key)
      }
      guard values[key] == nil else { throw PolicyError(saidTwice: member.key) }
      values[key] = try Self.text(of: member.value, for: key)
    }
    self = try PolicyWords(values).applied(to: base)
  }

  /// The policy as a JSON object on one line, with all its keys.
  public var json: String {
    let members = PolicyKey.allCases.map { key in
      guard let text = text(for: key) else { return "\"\(key.rawValue)\":null" }
      return switch key.value {
      case .count, .factor: "\"\(key.rawValue)\":\(text)"
      case .duration, .rate, .callRate, .word: "\"\(key.rawValue)\":\"\(text)\""
      case .countOrRate:
        CountText.parse(text) == nil
          ? "\"\(key.rawValue)\":\"\(text)\"" : "\"\(key.rawValue)\":\(text)"
      }
    }
    return "{" + members.joined(separator: ",") + "}"
  }

  private static func text(
    of value: JSONMember.Value, for key: PolicyKey
  ) throws(PolicyError) -> String {
    switch (value, key.value) {
    case (.number(let text), .count), (.number(let text), .factor), (.string(let text), .duration),
      (.string(let text), .rate), (.number(let text), .countOrRate),
      (.string(let text), .countOrRate), (.string(let text), .callRate),
      (.string(let text), .word):
      return text
    case (.null, _):
      return key.isOptional ? "none" : "null"
    case (.string, .count), (.string, .factor), (.bool, .count), (.bool, .factor),
      (.nested, .count), (.nested, .factor):
      throw PolicyError(about: key.rawValue, "\(key.rawValue) takes a number, such as 3")
    case (.number, .duration), (.bool, .duration), (.nested, .duration):
      throw PolicyError(
        about: key.rawValue, "\(key.rawValue) takes a time in quotes, such as \"30s\"")
    case (.number, .rate), (.bool, .rate), (.nested, .rate):
      throw PolicyError(
        about: key.rawValue, "\(key.rawValue) takes a rate in quotes, such as \"50%\"")
    case (.number, .callRate), (.bool, .callRate), (.nested, .callRate):
      throw PolicyError(
        about: key.rawValue,
        "\(key.rawValue) takes calls in a time in quotes, such as \"500/1m\"")
    case (.number, .word), (.bool, .word), (.nested, .word):
      throw PolicyError(
        about: key.rawValue,
        "\(key.rawValue) takes a word in quotes: \(key.words.joined(separator: " or "))")
    case (.bool, .countOrRate), (.nested, .countOrRate):
      throw PolicyError(
        about: key.rawValue,
        "\(key.rawValue) takes a number, such as 3, or a rate in quotes, such as \"30%\"")
    }
  }
}
