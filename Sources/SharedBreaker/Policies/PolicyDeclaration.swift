internal import BreakerCore
internal import BreakerStore

/// A policy that code has declared for a breaker.
public struct PolicyDeclaration: Sendable, Hashable {
  /// The policy in the words of the command line; empty for the default policy.
  public let text: String

  /// Whether this is the declaration that is in force.
  public let isInForce: Bool

  /// When the policy was last declared in place of another one.
  public let at: BreakerTimestamp

  /// The number of the process that declared it then.
  public let pid: Int32

  /// The name of the program that declared it then.
  public let program: String

  init(_ declaration: StoredDeclaration, isInForce: Bool) {
    text = declaration.words
    self.isInForce = isInForce
    at = BreakerTimestamp(millisecondsSince1970: declaration.atMilliseconds)
    pid = declaration.pid
    program = declaration.program
  }
}
