/// The giver of a command to a fleet, and how far it is verified.
///
/// A program names the user that it acts for, and can name any. If it announces the command to the
/// relay of its host first, that relay learns from the kernel which user the program runs as.
public struct FleetGiver: Sendable, Hashable {
  /// The author, according to the program, such as `deploy, via cbctl`.
  public var said: String

  /// The user whom the relay of that host has seen giving it; nil if it has seen no user.
  public var verifiedUser: String?

  /// Whether a key of the fleet proves that this relay has said so.
  ///
  /// Without a key, anyone who can write to the server could have said it.
  public var isProven: Bool

  /// The host on which it was given.
  public var host: String

  /// Describes a giver; without a verified user there is nothing to prove.
  @_spi(Relay) public init(
    said: String, verifiedUser: String? = nil, isProven: Bool = false, host: String
  ) {
    self.said = OutsideText.cut(said, to: OutsideText.longestName)
    self.verifiedUser = verifiedUser.map { OutsideText.cut($0, to: OutsideText.longestName) }
    self.isProven = isProven && verifiedUser != nil
    self.host = host
  }
}

extension FleetGiver: CustomStringConvertible {
  /// The giver in words, as in `deploy on ops-1 (verified)`, and never more than is known.
  ///
  /// If the program has named another person than its user, both are named. Names are as they were
  /// given, so they may contain control characters.
  public var description: String {
    guard let verifiedUser else { return "\(said) on \(host) (unverified)" }
    let isSame = said == verifiedUser || said.hasPrefix(verifiedUser + ", ")
    let claim = isSame ? "" : ", as \(said)"
    return
      "\(verifiedUser) on \(host) (\(isProven ? "verified" : "verified there, unsigned")\(claim))"
  }
}
