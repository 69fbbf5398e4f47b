/// Which hosts a command to a breaker reaches.
///
/// A later version may add cases, so end a `switch` over a scope with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum CommandScope: Sendable, Hashable {
  /// This host alone.
  case host

  /// Every host of the fleet.
  ///
  /// The breaker of this host changes at once. The relay of this host, `cbrelay`, tells the other
  /// hosts, or does so as soon as it reaches them. Each host does what the command says exactly
  /// once, and of two commands about the same thing every host follows the later one.
  case fleet
}
