/// How many units of work may be under way while a breaker ramps up.
package struct RampAllowance: Sendable, Hashable {
  /// As many as have succeeded since the ramp began, and one more.
  package var units: Int

  package init(succeeded: Int) { units = succeeded + 1 }

  /// Whether a call of some weight may begin beside those under way; one alone always may.
  package func permits(_ weight: Int, beside usage: Int) -> Bool {
    usage <= 0 || usage + weight <= units
  }
}
