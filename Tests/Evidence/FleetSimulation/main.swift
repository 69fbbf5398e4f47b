import Glibc

// Prints the tables of the guide "A Fleet of Hosts".
//
//     fleet-simulation [HOSTS]    only the rows of fleets up to that size

let words = CommandLine.arguments.dropFirst()
let limit = words.first.map { Int($0) } ?? .max
guard words.count <= 1, let limit else {
  let usage = Array("fleet-simulation: usage: fleet-simulation [HOSTS]\n".utf8)
  _ = unsafe write(2, usage, usage.count)
  exit(64)
}
print(Tables(limit: limit).text, terminator: "")
