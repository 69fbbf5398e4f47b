internal import BreakerCore
internal import Glibc

/// Policies from outside the code, in the words of `cbctl policy --set`.
///
/// The words are laid over another policy, so that a file or a variable says only what differs. The
/// word `none` takes a value away where there can be none. Each mistake is an error that says which
/// word is wrong, why, and what to do.
extension BreakerPolicy {
  /// Reads a policy from words such as `max-failures=3 open-for=1m`.
  ///
  /// - Parameters:
  ///   - words: The words, with spaces between them.
  ///   - base: The policy that holds where the words say nothing.
  /// - Throws: `PolicyError` if a word is unknown, said twice or has no such value, or if the policy
  ///   that comes out of it cannot be used.
  public init(words: String, over base: BreakerPolicy = BreakerPolicy()) throws(PolicyError) {
    var said: Set<Substring> = []
    for word in words.split(separator: " ") {
      let key = word.prefix { $0 != "=" }
      guard said.insert(key).inserted else { throw PolicyError(saidTwice: String(key)) }
    }
    self = try PolicyWords(text: words).applied(to: base)
  }

  /// Reads a policy from a variable of the environment, as words or as a JSON object.
  ///
  /// - Parameters:
  ///   - variable: The name of the variable.
  ///   - base: The policy that holds where the variable says nothing, or is not set.
  /// - Throws: `PolicyError` as for words and JSON, with the name of the variable.
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
    self.init(about: key, "\(OutsideText.quoted(key)) is said twice: say it once")
  }

  /// An error about a word that need not be one of a policy.
  init(about key: String, _ description: String) {
    self.init(unknownKey: key)
    self.description = description
  }
}
