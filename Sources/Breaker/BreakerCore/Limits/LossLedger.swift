/// How many of the calls that were found lost a breaker has counted.
///
/// They are found in the memory of a host and counted in a transaction, by processes that may be killed at
/// any step. So nothing that is written after the commit can decide whether they are counted. The total of
/// the breaker decides it, because only these calls add to it.
package struct LossLedger: Sendable, Hashable {
  /// The total of the breaker without the calls that were found here; nil before the first look at it.
  package var base: Int64?

  /// How many of the calls that were found here are counted for certain.
  package var counted: Int64

  package init(base: Int64? = nil, counted: Int64 = 0) {
    self.base = base
    self.counted = counted
  }

  /// The most calls that are believed to be lost: memory that says more was damaged.
  package static let most: Int64 = 1_000_000

  /// How many of the calls that were found the breaker has yet to count.
  ///
  /// - Parameters:
  ///   - found: How many were found so far.
  ///   - total: How many lost calls the breaker has counted, read in the transaction that counts the rest.
  /// - Returns: How many to count now.
  package mutating func uncounted(of found: Int64, in total: Int64) -> Int64 {
    let certain = max(0, min(counted, found))
    if let base {
      let known = total.subtractingSaturating(base)
      if known >= certain, known <= found, found - known <= Self.most { return found - known }
    }
    // The first look, or a total that something else has changed, as restoring a backup does.
    let isBelieved = found - certain <= Self.most
    base = total.subtractingSaturating(isBelieved ? certain : found)
    return isBelieved ? found - certain : 0
  }
}
