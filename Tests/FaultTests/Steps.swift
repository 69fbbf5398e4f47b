import TestSupport

enum Steps {
  /// How many steps lie between two at which the disk fails, or the power.
  ///
  /// Every step has its turn, unless few rounds were asked for, as under a sanitizer: there a share of
  /// them has, of every kind.
  static let stride = rounds(1_000) < 100 ? 7 : 1
}
