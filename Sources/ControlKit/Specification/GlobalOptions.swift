/// The options that every command takes, before or after its name.
struct GlobalOptions: Sendable, Hashable {
  var store: String?
  var isJSON = false
  var isColorless = false
  var isQuiet = false

  static let specs = [
    OptionSpec(name: "store", kind: .path, summary: "the store's file"),
    OptionSpec(name: "json", summary: "print JSON"),
    OptionSpec(name: "no-color", summary: "print without colours, as with NO_COLOR"),
    OptionSpec(name: "quiet", letter: "q", summary: "print only errors and the data you asked for"),
    OptionSpec(name: "help", letter: "h", summary: "show the help of the command"),
    OptionSpec(name: "version", summary: "print the version"),
  ]

  init(_ values: [String: [ParsedValue]]) {
    if case .text(let path)? = values["store"]?.last { store = path }
    isJSON = values["json"] != nil
    isColorless = values["no-color"] != nil
    isQuiet = values["quiet"] != nil
  }
}
