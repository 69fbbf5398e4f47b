/// A count with its noun, as people read it: `0 calls`, `1 call`, `2 policies`.
public enum CountedNoun {
  /// The count and the noun; `plural` is for a noun that does not only take an `s`.
  public static func text(
    _ count: some BinaryInteger, _ noun: String, plural: String? = nil
  ) -> String {
    "\(count) " + (count == 1 ? noun : plural ?? noun + "s")
  }
}
