/// A command line or an environment that cannot be understood.
package struct UsageError: Error, Hashable, CustomStringConvertible {
  /// What is wrong, and what to do, without the program's name.
  package var description: String

  package init(_ what: String, _ remedy: String) { description = "\(what): \(remedy)" }
}
