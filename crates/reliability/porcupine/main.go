// Decides whether exported histories are linearizable, key by key, with porcupine, which knows
// nothing of stamps: a second opinion on the checker in src/history/checker.rs.
//
// Reads the lines that src/history/export.rs describes from standard input. Every value is
// written once, so a key's state is the name of the value it holds, "" where it is absent, and
// whether the time has come at which values expire whose name begins with an "e".
//
// Exit code 0: all are; 1: one is not, or a line is not readable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type line struct {
	History uint64 `json:"history"`
	Key     int    `json:"key"`
	Client  int    `json:"client"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
	Kind    string `json:"kind"`
	Input   string `json:"input"`
	Output  string `json:"output"`
}

type input struct {
	kind  string
	value string
}

type key struct {
	value string
	over  bool
}

func (state key) holding(value string) key {
	if state.over && strings.HasPrefix(value, "e") {
		value = ""
	}
	return key{value, state.over}
}

var register = porcupine.Model{
	Init: func() interface{} { return key{} },
	Step: func(before, in, out interface{}) (bool, interface{}) {
		asked, state, told := in.(input), before.(key), out.(string)
		switch asked.kind {
		case "read":
			return told == state.value, state
		case "other":
			return told != state.value, state
		case "swap":
			return told == state.value, state.holding(asked.value)
		case "expire":
			return true, key{over: true}.holding(state.value)
		default:
			return true, state.holding(asked.value)
		}
	},
	Equal: func(one, other interface{}) bool { return one == other },
}

type place struct {
	history uint64
	key     int
}

func main() {
	histories := map[place][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	operations := 0
	for lines.Scan() {
		var read line
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			fmt.Fprintf(os.Stderr, "line %d: %v\n", operations+1, err)
			os.Exit(1)
		}
		at := place{read.History, read.Key}
		histories[at] = append(histories[at], porcupine.Operation{
			ClientId: read.Client,
			Input:    input{read.Kind, read.Input},
			Call:     read.Call,
			Output:   read.Output,
			Return:   read.Return,
		})
		operations++
	}
	undecided, refused := 0, 0
	for at, history := range histories {
		switch porcupine.CheckOperationsTimeout(register, history, 20*time.Second) {
		case porcupine.Illegal:
			refused++
			fmt.Printf("history %d, key %d is not linearizable\n", at.history, at.key)
		case porcupine.Unknown:
			undecided++
		}
	}
	fmt.Printf("%d operations in %d histories of one key: %d refused, %d undecided\n",
		operations, len(histories), refused, undecided)
	if refused > 0 || undecided > 0 || operations == 0 {
		os.Exit(1)
	}
}
