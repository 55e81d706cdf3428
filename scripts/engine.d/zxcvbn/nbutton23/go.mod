module github.com/nbutton23/zxcvbn-go
