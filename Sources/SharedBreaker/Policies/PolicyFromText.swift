internal import BreakerCore
internal import Glibc

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
