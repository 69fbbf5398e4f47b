import TestSupport

enum Steps {
  /// How many steps apart the ones are at which the disk or the power fails.
  ///
  /// Every step has its turn, unless few rounds were asked for, as under a sanitizer. Then only a
  /// share of the steps of every kind has.
  static let stride = rounds(1_000) < 100 ? 7 : 1
}
